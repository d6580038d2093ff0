package bench

import (
	"context"
	"errors"
	"fmt"
)

// ErrInterrupted means that the caller's context was cancelled before all was measured.
var ErrInterrupted = errors.New("interrupted")

// leftError says that a schema could not be dropped.
type leftError struct {
	schema string
	err    error
}

func (e leftError) Error() string {
	return fmt.Sprintf("the schema %[1]s is left; remove it with DROP SCHEMA %[1]s CASCADE: %[2]v", e.schema, e.err)
}

func (e leftError) Unwrap() error { return e.err }

// called is what a caller is told: that it called off what was under way, in place of what that came to, and
// what is left of it.
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
