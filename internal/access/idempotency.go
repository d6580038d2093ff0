package access

import (
	"context"
	"errors"
)

var (
	// ErrRunning means that the first request with an idempotency key is still in progress.
	ErrRunning = errors.New("the first request with this Idempotency-Key is still being answered; try again when it is")
	// ErrDone means that the request was carried out, but its response was lost and can't be recreated.
	ErrDone = errors.New("the request with this Idempotency-Key was carried out, and what it created has ended since; see its history")
	// ErrOtherBody means that an idempotency key was used before with another body.
	ErrOtherBody = errors.New("this Idempotency-Key came with another body before; take a new key for a new request")
)

type onceKey struct{}

// WithOnce returns a context with the request's idempotency key.
func WithOnce(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, onceKey{}, key)
}

// OnceOf returns the idempotency key of a context; empty: none.
func OnceOf(ctx context.Context) string {
	key, _ := ctx.Value(onceKey{}).(string)
	return key
}

// StoredResponse is a response stored for repeated requests.
type StoredResponse struct {
	Status int
	Header map[string]string
	Body   []byte
}
