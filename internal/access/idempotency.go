package access

import (
	"context"
	"errors"
)

var (
	// ErrRunning means that the first request with an idempotency key is not answered yet.
	ErrRunning = errors.New("the first request with this Idempotency-Key is still being answered; try again when it is")
	// ErrDone means that a request was carried out, and that its answer was lost and cannot be made again.
	ErrDone = errors.New("the request with this Idempotency-Key was carried out, and what it created has ended since; look at its history")
	// ErrOtherBody means that an idempotency key came with another body before.
	ErrOtherBody = errors.New("this Idempotency-Key came with another body before; take a new key for a new request")
)

type onceKey struct{}

// WithOnce returns a context of the request that is remembered under a key.
func WithOnce(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, onceKey{}, key)
}

// OnceOf returns the key of the request, as WithOnce had it; empty: it is not remembered.
func OnceOf(ctx context.Context) string {
	key, _ := ctx.Value(onceKey{}).(string)
	return key
}

// StoredResponse is an answer as it is kept for a request that comes again.
type StoredResponse struct {
	Status int
	Header map[string]string
	Body   []byte
}
