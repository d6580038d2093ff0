package access

import "errors"

var (
	// ErrRunning means that the first request with an idempotency key is not answered yet.
	ErrRunning = errors.New("the first request with this Idempotency-Key is still being answered; try again when it is")
	// ErrOtherBody means that an idempotency key came with another body before.
	ErrOtherBody = errors.New("this Idempotency-Key came with another body before; take a new key for a new request")
)

// Reply is an answer as it is kept for a request that comes again.
type Reply struct {
	Status int
	Header map[string]string
	Body   []byte
}
