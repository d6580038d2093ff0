package lookup

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/sony/gobreaker/v2"
)

// abandonGrace is the time a call may take beyond its deadline before it is abandoned.
const abandonGrace = 100 * time.Millisecond

// errClient means that the client is at fault, not the source.
var errClient = errors.New("the client of the source is broken")

// errIgnoredTimeout means that a call was abandoned.
var errIgnoredTimeout = errors.New("and the call ignores its deadline")

// errCallerGone means that the caller's context ended; the health of the source is unaffected.
var errCallerGone = errors.New("the caller does not wait any more")

func newCircuit(l Limits) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Timeout:      l.OpenFor,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= l.OpenAfter },
		IsSuccessful: func(err error) bool { return err == nil || errors.Is(err, ErrQuestion) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errCallerGone) },
	})
}

// breakerResult runs call if the circuit breaker allows it, and records the result in the breaker and the statistics.
// It always releases the place.
func breakerResult[T any](ctx context.Context, s *Source, at *semaphore, timeout time.Duration, do func(context.Context) (T, error)) (value T, err error) {
	done, err := s.circuit.Allow()
	if err != nil {
		at.release()
		return value, s.outage(s.backingOff())
	}
	value, err = call(ctx, s, at, timeout, do)
	s.stats.record(err, s.Now())
	done(err)
	return value, err
}

type trialKey struct{}

// Trial returns a context for calls that do not count toward the health of a source: the author of a rule must not
// cut off the source for the rules that use it.
func Trial(ctx context.Context) context.Context { return context.WithValue(ctx, trialKey{}, true) }

// runner returns the function that runs a call: call on trial, otherwise breakerResult.
func runner[T any](ctx context.Context) func(context.Context, *Source, *semaphore, time.Duration, func(context.Context) (T, error)) (T, error) {
	if trial, _ := ctx.Value(trialKey{}).(bool); trial {
		return call[T]
	}
	return breakerResult[T]
}

// backingOff returns the error of a source while its circuit is not closed.
func (s *Source) backingOff() error {
	if last := s.stats.lastError(); last != nil {
		return fmt.Errorf("%w (it is not queried for %s at a time)", last, s.Limits.OpenFor)
	}
	return fmt.Errorf("it is not queried for %s at a time", s.Limits.OpenFor)
}

// call runs a client call in an acquired place, and releases the place. The error is
//
//  1. an ErrQuestion, if the client returns one,
//  2. an errClient,
//  3. errCallerGone, if ctx is done,
//  4. a *checks.Outage otherwise.
func call[T any](ctx context.Context, s *Source, at *semaphore, timeout time.Duration, do func(context.Context) (T, error)) (value T, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var got T
	var failed error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		got, failed = recoverPanic(limited, s, do)
	}()
	if returnsInTime(limited, returned) {
		at.release()
		value, err = got, failed
	} else {
		at.abandon(returned)
		err = errIgnoredTimeout
	}
	switch {
	case err == nil:
		return value, nil
	case errors.Is(err, ErrQuestion), errors.Is(err, errClient):
		return value, err
	case ctx.Err() != nil:
		return value, fmt.Errorf("source %s: %w: %w", s.Name, errCallerGone, context.Cause(ctx))
	case errors.Is(err, errIgnoredTimeout):
		return value, s.outage(fmt.Errorf("it did not answer within %s, %w", timeout, err))
	case errors.Is(err, context.DeadlineExceeded):
		return value, s.outage(fmt.Errorf("it did not answer within %s", timeout))
	}
	return value, s.outage(err)
}

// returnsInTime reports whether a call returns before its deadline or within abandonGrace after it.
func returnsInTime(ctx context.Context, returned <-chan struct{}) bool {
	select {
	case <-returned:
		return true
	case <-ctx.Done():
	}
	timeout := time.NewTimer(abandonGrace)
	defer timeout.Stop()
	select {
	case <-returned:
		return true
	case <-timeout.C:
		return false
	}
}

// recoverPanic turns a panic of the client into an errClient. The panic value is only logged, as it may contain
// secrets.
func recoverPanic[T any](ctx context.Context, s *Source, do func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("the client of a source panicked", "source", s.Name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: it panicked; see the log", errClient)
		}
	}()
	return do(ctx)
}
