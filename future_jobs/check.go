package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"deadman/checks"
)

// abandonGrace is how long a handler may take to return after its timeout.
const abandonGrace = 100 * time.Millisecond

// errAbandoned means that a handler did not return at its timeout.
var errAbandoned = fmt.Errorf("the handler ignored its timeout and was abandoned: %w", context.DeadlineExceeded)

// panicError is the error of a handler that panicked.
type panicError struct {
	value any
	stack []byte // for the log
}

func (p panicError) Error() string { return fmt.Sprintf("the handler panicked: %v", p.value) }

// callHandler calls a handler. A panic becomes an error of this check alone.
func callHandler(ctx context.Context, h checks.Handler, c checks.Check) (a checks.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, err = checks.Answer{}, panicError{p, debug.Stack()}
		}
	}()
	return h.Check(ctx, c)
}

// callWithTimeout calls a handler that may take up to timeout. returned is closed when the handler has returned,
// perhaps much later.
func callWithTimeout(ctx context.Context, timeout time.Duration, h checks.Handler, c checks.Check) (a checks.Answer, returned <-chan struct{}, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan struct{})
	var got checks.Answer
	var gotErr error
	go func() {
		defer close(done)
		got, gotErr = callHandler(ctx, h, c)
	}()
	select {
	case <-done:
		return got, done, gotErr
	case <-ctx.Done():
	}
	grace := time.NewTimer(abandonGrace)
	defer grace.Stop()
	select {
	case <-done:
		if gotErr == nil {
			gotErr = errors.New("the answer came after the timeout")
		}
		return checks.Answer{}, done, fmt.Errorf("%w: %w", context.DeadlineExceeded, gotErr)
	case <-grace.C:
		return checks.Answer{}, done, errAbandoned
	}
}

// isInline reports whether the rule's handler only computes, and waits for no I/O.
func isInline(r *Rule) bool {
	_, is := r.Handler.(checks.Inline)
	return is
}

// alreadyReturned is the channel of a handler that has returned.
var alreadyReturned = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
