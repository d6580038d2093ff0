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

// done is the returned channel of a handler that has returned.
var done = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// check calls the handlers of a chunk. Inline handlers run here and their decisions are passed on together; other
// handlers run concurrently.
func (s *Sweeper) check(ctx context.Context, chunk []*task, decided chan<- []*task) {
	ready, now := chunk[:0], s.clock.Now()
	for _, v := range chunk {
		if v.unasked {
			ready = append(ready, v)
			continue
		}
		if isInline(v.rule) {
			now = s.checkInline(ctx, v, now)
			ready = append(ready, v)
			continue
		}
		v.Job.Last.StartedAt = now
		s.checkAsync(ctx, v, decided)
	}
	if len(ready) > 0 {
		decided <- ready
	}
}

// checkInline runs an inline handler at the time now and decides. It returns the start time of the next one: deciding
// takes less than a microsecond.
func (s *Sweeper) checkInline(ctx context.Context, v *task, now time.Time) time.Time {
	v.Job.Last.StartedAt = now
	answer, err := callHandler(ctx, v.rule.Handler, v.question(now))
	now = s.decideTask(v, answer, err)
	if err != nil {
		now = s.clock.Now() // logging a stack takes longer
	}
	return now
}

// checkAsync runs a handler that may wait for I/O, in a lane of its own.
func (s *Sweeper) checkAsync(ctx context.Context, v *task, decided chan<- []*task) {
	found := func(answer checks.Answer, err error) {
		s.decideTask(v, answer, err)
		decided <- []*task{v}
	}
	s.slow.run(v.rule, v.Job, func() (returned <-chan struct{}) {
		if before, ok := s.unsettled.of(v.Job); ok {
			found(before.answer, before.err)
			return done
		}
		if err := s.recordStart(ctx, v); err != nil {
			found(checks.Answer{}, err)
			return done
		}
		answer, returned, err := callWithTimeout(ctx, v.rule.Limits.Timeout, v.rule.Handler, v.question(v.Job.Last.StartedAt))
		if errors.Is(err, errAbandoned) {
			s.log.Warn("handler abandoned", "rule", v.rule.Name, "key", v.Job.Key, "timeout", v.rule.Limits.Timeout)
		}
		s.outages.noteAnswer(v.rule, err, s.clock.Now())
		if isAtMostOnce(v.rule) {
			s.unsettled.keep(v.Job, s.clock.Now(), answer, err)
		}
		found(answer, err)
		return returned
	})
}

// decideTask decides on the answer of a handler, and returns the time of the decision.
func (s *Sweeper) decideTask(v *task, answer checks.Answer, err error) (now time.Time) {
	now = s.clock.Now()
	look := v.Job.Last
	if err != nil {
		look.FailedAt = now
		err = s.outages.attribute(v.rule, err)
		if p := (panicError{}); errors.As(err, &p) {
			s.log.Error("handler panicked", "rule", v.rule.Name, "key", v.Job.Key, "panic", p.value, "stack", string(p.stack))
		}
	} else {
		look.CompletedAt = now
	}
	v.decide(v.rule, look, answer, err, now)
	return now
}
