package bench

import (
	"context"
	"errors"
	"fmt"
)

// ErrInterrupted means that the caller's context was cancelled before the measurement ended.
var ErrInterrupted = errors.New("interrupted")

// leftError means that a schema could not be dropped.
type leftError struct {
	schema string
	err    error
}

func (e leftError) Error() string {
	return fmt.Sprintf("the schema %[1]s was not dropped; remove it with DROP SCHEMA %[1]s CASCADE: %[2]v", e.schema, e.err)
}

func (e leftError) Unwrap() error { return e.err }

// called replaces the error of a cancelled run with ErrInterrupted. It keeps the error about a schema that is left.
func called(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	var left leftError
	if errors.As(err, &left) {
		return errors.Join(ErrInterrupted, left)
	}
	return ErrInterrupted
}
