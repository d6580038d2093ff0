package futurejobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// abandonGrace is how long a handler may take to return after its timeout.
const abandonGrace = 100 * time.Millisecond

// errAbandoned means that a handler did not return at its timeout.
var errAbandoned = fmt.Errorf("the handler ignored its timeout and was abandoned: %w", context.DeadlineExceeded)

// checkOf returns the check of a job at the time now, as it is passed to the handler.
func (r *Rule) checkOf(j *Job, now time.Time) checks.Check {
	c := checks.Check{
		JobID: j.ID, Rule: r.Name, RuleVersion: int(r.Version), Entity: r.Entity, Key: j.Key,
		Event: j.Event, State: j.Known(), Since: j.Since, Slot: j.NextCheckAt, At: now,
		Count: j.CheckCount, Step: j.Step, AlertCount: len(j.Alerts), Pauses: j.Pauses, AckedUntil: j.AckedUntil,
	}
	if len(j.Alerts) > 0 {
		c.FirstAlertAt = alerts.TimeOf(j.Alerts[0])
	}
	return c
}

// Check calls the rule's handler for a job, inline, and decides. now is the database's time, not before the job's
// slot.
func (r *Rule) Check(ctx context.Context, j Job, now time.Time) Decision {
	d := Decision{Job: j}
	if r.skipIfLate(&d, now) {
		return d
	}
	answer, err := r.answer(ctx, r.checkOf(&j, now))
	look := CheckTimes{PickedAt: now, StartedAt: now, CompletedAt: now}
	if err != nil {
		look.CompletedAt, look.FailedAt = time.Time{}, now
	}
	r.decide(&d, look, answer, err, now)
	return d
}

// CheckNow checks a job at a person's request. It may end the job, by the effect it returns, and takes no step; ends
// is false if the job continues.
func (r *Rule) CheckNow(ctx context.Context, j Job, now time.Time) (effect Effect, ends bool, err error) {
	if isAtMostOnce(r) {
		return Effect{}, false, errHasSideEffects
	}
	ctx, cancel := context.WithTimeout(ctx, r.Limits.Timeout)
	defer cancel()
	c := r.checkOf(&j, now)
	c.Manual = true
	answer, err := r.answerNow(ctx, c)
	if err != nil || !answer.Next.IsZero() || answer.Outcome == checks.Exhausted {
		return Effect{}, false, err
	}
	end := End{Outcome: cmp.Or(answer.Outcome, checks.Cleared), Reason: "found by a look by hand", State: answer.State}
	for _, draft := range answer.Alerts {
		if draft.Status == alerts.Resolved {
			end.Close = func(Job) alerts.Draft { return draft }
		}
	}
	return Effect{Rule: r, Ref: j.Ref, Rev: &j.Rev, Action: end}, true, nil
}

// errHasSideEffects means that a handler has side effects and must not run in a manual check: nothing would prevent a
// second run.
var errHasSideEffects = errors.New("the handler has effects (at_most_once), and a look by hand does not run it; it is run at the next look")

// errSourceBusy means that a source already has as many lookups as it allows.
var errSourceBusy = errors.New("the source is busy with other looks; try again")

// answer does the lookup of one check, if the rule needs one, and calls the handler.
func (r *Rule) answer(ctx context.Context, c checks.Check) (checks.Answer, error) {
	if r.Finder == nil {
		return callHandler(ctx, r.Handler, c)
	}
	if !r.Finder.Enter() {
		return checks.Answer{}, errSourceBusy
	}
	found := lookUp(ctx, r.Finder, []checks.Check{c})[0]
	if found.Err != nil {
		return checks.Answer{}, found.Err
	}
	c.Asked, c.Found = true, found.Value
	return callHandler(ctx, r.Handler, c)
}

// answerNow is answer for a waiting client: a handler that ignores its timeout is abandoned.
func (r *Rule) answerNow(ctx context.Context, c checks.Check) (checks.Answer, error) {
	if r.Finder != nil || isInline(r) {
		return r.answer(ctx, c)
	}
	answer, _, err := callWithTimeout(ctx, r.Limits.Timeout, r.Handler, c)
	return answer, err
}

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

// Patience returns how long after its slot a check may take: the rule's timeout if the check waits for a source or a
// handler, and zero if it only computes.
func (r *Rule) Patience() time.Duration {
	if r.Finder == nil && isInline(r) {
		return 0
	}
	return r.Limits.Timeout
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
	v.rule.decide(&v.Decision, look, answer, err, now)
	return now
}
