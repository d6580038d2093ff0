package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"deadman/checks"
	"deadman/internal/failpoints"
)

// checker decides tasks: it calls their handlers and sources.
type checker struct {
	clock   *Clock
	log     *slog.Logger
	starts  CheckStarts
	workers *limiter
	turns   *turns
	outages *outageCache
	answers answerCache
	freed   func() // called when a source or a tenant can take more tasks
	wake    func() // begins a sweep
}

// check calls the handlers of a chunk. Inline handlers run here and their decisions are passed on together; other
// handlers run concurrently.
func (c *checker) check(ctx context.Context, chunk []*task, decided chan<- []*task) {
	ready, now := chunk[:0], c.clock.Now()
	for _, v := range chunk {
		if v.handlerSkipped {
			ready = append(ready, v)
			continue
		}
		if isInline(v.rule) {
			now = c.checkInline(ctx, v, now)
			ready = append(ready, v)
			continue
		}
		v.Job.Last.StartedAt = now
		c.checkAsync(ctx, v, decided)
	}
	if len(ready) > 0 {
		decided <- ready
	}
}

// checkInline runs an inline handler at the time now and decides. It returns the start time of the next one: deciding
// takes less than a microsecond.
func (c *checker) checkInline(ctx context.Context, v *task, now time.Time) time.Time {
	v.Job.Last.StartedAt = now
	answer, err := callHandler(ctx, v.rule.Handler, v.checkRequest(now))
	now = c.decide(v, answer, err)
	if err != nil {
		now = c.clock.Now() // logging a stack takes longer
	}
	return now
}

// checkAsync runs a handler that may wait for I/O, in a worker of its own.
func (c *checker) checkAsync(ctx context.Context, v *task, decided chan<- []*task) {
	found := func(answer checks.Answer, err error) {
		c.decide(v, answer, err)
		decided <- []*task{v}
	}
	c.workers.run(v.rule, v.Job, func() (returned <-chan struct{}) {
		if before, ok := c.answers.of(v.Job); ok {
			found(before.answer, before.err)
			return alreadyReturned
		}
		if err := c.recordStart(ctx, v); err != nil {
			found(checks.Answer{}, err)
			return alreadyReturned
		}
		answer, returned, err := callWithTimeout(ctx, v.rule.Limits.Timeout, v.rule.Handler, v.checkRequest(v.Job.Last.StartedAt))
		if errors.Is(err, errAbandoned) {
			c.log.Warn("handler abandoned", "rule", v.rule.Name, "key", v.Job.Key, "timeout", v.rule.Limits.Timeout)
		}
		c.outages.noteAnswer(v.rule, err, c.clock.Now())
		if isAtMostOnce(v.rule) {
			c.answers.keep(v.Job, c.clock.Now(), answer, err)
		}
		found(answer, err)
		return returned
	})
}

// decide decides on the answer of a handler, and returns the time of the decision.
func (c *checker) decide(v *task, answer checks.Answer, err error) (now time.Time) {
	now = c.clock.Now()
	times := v.Job.Last
	if err != nil {
		times.FailedAt = now
		err = c.outages.attribute(v.rule, err)
		if p := (panicError{}); errors.As(err, &p) {
			c.log.Error("handler panicked", "rule", v.rule.Name, "key", v.Job.Key, "panic", p.value, "stack", string(p.stack))
		}
	} else {
		times.CompletedAt = now
	}
	v.decide(v.rule, times, answer, err, now)
	return now
}

// recordStart records the start of a check, if its rule is at-most-once.
func (c *checker) recordStart(ctx context.Context, v *task) error {
	if !isAtMostOnce(v.rule) {
		return nil
	}
	ok, err := c.starts.BeginCheck(ctx, CheckStart{HeldShard: v.shard.HeldShard, JobID: v.Job.ID, CheckAttempts: v.Job.CheckAttempts})
	switch {
	case err != nil:
		return fmt.Errorf("the start of the check was not recorded: %w", err)
	case !ok:
		return errAlreadyStarted
	}
	return nil
}

// lookUp does the lookup for jobs of one version, and calls their handler for each. If ctx ends first, nothing is
// decided: a stopping node does not wait for sources, since lookups have no side effects, and the next holder of the
// shard repeats them.
func (c *checker) lookUp(ctx context.Context, batch []*task, decided chan<- []*task) {
	rule, now := batch[0].rule, c.clock.Now()
	requests := make([]checks.Check, len(batch))
	for i, v := range batch {
		requests[i] = v.checkRequest(now)
	}
	findings := lookUp(ctx, rule.Finder, requests)
	failpoints.Point("find.found")
	if ctx.Err() != nil {
		for _, v := range batch {
			v.shard.finish(v.Job.ID, v.slot)
		}
		return
	}
	lookupEnd := c.clock.Now()
	c.outages.noteFindings(rule, findings, lookupEnd)
	for i, found := range findings {
		v, request := batch[i], requests[i]
		v.Job.Last.StartedAt, v.lookupEnd = now, lookupEnd
		var answer checks.Answer
		err := found.Err
		if err == nil {
			request.Queried, request.Found = true, found.Value
			answer, err = callHandler(ctx, rule.Handler, request)
		}
		c.decide(v, answer, err)
	}
	decided <- batch
	c.freed()
}

// checkInTurns decides the queued checks of tenants until the queues are closed. Once ctx ends, it leaves them due.
func (c *checker) checkInTurns(ctx context.Context, pipe *pipeline) {
	for q := c.turns.next(); q != nil; q = c.turns.next() {
		c.takeTurn(ctx, q, pipe)
	}
}

// takeTurn decides queued checks of a tenant until the turn ends. While the allowance of the tenant is used up, it leaves
// them due: the next sweep puts them off.
func (c *checker) takeTurn(ctx context.Context, q *turnQueue, pipe *pipeline) {
	pipe.undecidedChunks.Add(1)
	defer pipe.done()
	var ready []*task
	isLeftDue, now := false, c.clock.Now()
	for cost := int64(0); len(ready) < maxTurn && cost < turnCost; {
		v := c.turns.take(q)
		if v == nil {
			break
		}
		allowance := v.rule.Allowance
		switch before := allowance.Spent(); {
		case ctx.Err() != nil:
			v.shard.finish(v.Job.ID, v.slot)
		case allowance.IsUsedUp(now):
			isLeftDue = true
			v.shard.finish(v.Job.ID, v.slot)
		default:
			now = c.checkInline(context.WithoutCancel(ctx), v, now)
			cost += allowance.Spent() - before
			ready = append(ready, v)
		}
	}
	if len(ready) > 0 {
		pipe.decided <- ready
	}
	if c.turns.end(q) {
		c.freed()
	}
	if isLeftDue {
		time.AfterFunc(maxRetry, c.wake)
	}
}
