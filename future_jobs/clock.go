package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Tolerances for the database's answers.
const (
	// maxClockJump is how far an answer may deviate from the time that passed since the last one.
	maxClockJump = time.Second
	// drift limits the additional deviation of two even clocks to the elapsed time divided by it.
	drift = 1000
	// confirmFor is how long a step of the database's clock has to last before the engine adopts it.
	confirmFor = 10 * time.Second
	// confirmEvery is how often the database is queried for the time.
	confirmEvery = 500 * time.Millisecond
	// rememberFor is how long the clock remembers the time from before a step.
	rememberFor = Day
	// ahead is how far a time from another server may lie in the future.
	ahead = 5 * time.Second
)

// Clock is the engine's time, available without a query each time: the last accepted answer of the database, plus the
// monotonic time since it arrived. So it is late by the latency of the answer, and never early. It goes back only by
// a step, or if an answer shows that it was ahead; never because an answer took longer than the one before.
//
// A step of the database's clock is adopted once it has lasted for 10 s, or at once if it undoes the last step. Until
// then the clock runs on by the elapsed time. See docs/adr/0049.
type Clock struct {
	query func(ctx context.Context) (time.Time, error)
	local func() time.Time

	// Changed is called when a step is seen, adopted or over. Set before Run.
	Changed func()
	// Follow is called before the clock adopts a step; isBack: it undoes the last one. The step stays in doubt while
	// Follow fails. Set before Run.
	Follow func(ctx context.Context, by time.Duration, isBack bool) error
	// Waiting is called when Learn begins to wait for a heartbeat of the given nodes, at most until a time. Set before Learn.
	Waiting func(nodes []Node, until time.Time)

	sync  sync.Mutex   // serializes the judgement of answers
	apart atomic.Int64 // number of the step that another server's clock did not make
	state atomic.Pointer[clockState]
}

// clockState is the state of the clock. It is immutable; the next state replaces it.
type clockState struct {
	last   *clockSample // the accepted sample; nil: none yet
	former *clockSample // the last sample before the last step; nil: none
	doubt  *doubt       // nil: the database's clock runs evenly
	steps  int64        // adopted steps
	latest Step         // the last seen step
	seen   int64        // number of seen steps, adopted or not
	isBack bool         // the last adopted step undid the one before
}

// clockSample is an answer of the database.
type clockSample struct {
	databaseAt    time.Time     // the time in the answer, in UTC
	sent, arrived time.Time     // by the local clock; the answer was given between them
	lead          time.Duration // how far the clock was ahead of databaseAt when the answer arrived; reduced slowly
}

// doubt holds the database's answers that contradict the elapsed time.
type doubt struct{ first, last *clockSample }

// Step is a step of the database's clock: its time after the step, and the expected time.
type Step struct {
	From, To time.Time
	At       time.Time // when it was seen, by the engine's time
	Over     bool      // the clock runs evenly again
	Believed bool      // the engine adopted it
}

// By returns the size of the step; negative: back.
func (s Step) By() time.Duration { return s.To.Sub(s.From) }

// NewClock returns a clock based on the database's. local is a monotonic clock such as time.Now. Until the first Sync
// the clock shows the zero time, and nothing is due.
func NewClock(query func(ctx context.Context) (time.Time, error), local func() time.Time) *Clock {
	c := &Clock{query: query, local: local, Changed: func() {}, Follow: func(context.Context, time.Duration, bool) error { return nil }, Waiting: func([]Node, time.Time) {}}
	c.state.Store(&clockState{})
	return c
}

// ClockJumpError means that the database's clock contradicts the elapsed time.
type ClockJumpError struct {
	By time.Duration // negative: back
}

func (j ClockJumpError) Error() string {
	return fmt.Sprintf("the database's clock stepped by %s; checks follow the elapsed time until the clock returns, or for %s", j.By, confirmFor)
}

// Run asks the database twice a second until ctx ends. A missing answer is no error: the clock runs on.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(confirmEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before := c.state.Load()
		_ = c.syncWithin(ctx, maxClockJump) // the sweep reports errors of the database
		if after := c.state.Load(); after.steps != before.steps || after.seen != before.seen || (after.doubt == nil) != (before.doubt == nil) {
			c.Changed()
		}
	}
}

// syncWithin is Sync with a timeout d: a slow answer is imprecise.
func (c *Clock) syncWithin(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.Sync(ctx)
}

// Sync asks the database for its time. It returns a ClockJumpError while the answers contradict the elapsed time.
func (c *Clock) Sync(ctx context.Context) error {
	sent := c.local()
	t, err := c.query(ctx)
	if err != nil {
		return fmt.Errorf("database time: %w", err)
	}
	c.sync.Lock()
	defer c.sync.Unlock()
	before := c.state.Load()
	next := before.judge(&clockSample{databaseAt: t.UTC(), sent: sent, arrived: c.local()})
	if next.steps > before.steps {
		if err := c.follow(ctx, next); err != nil {
			return errors.Join(err, c.Err())
		}
	}
	c.state.Store(next)
	return c.Err()
}

// await returns after all running calls of Follow, once the clock has adopted their steps.
func (c *Clock) await() {
	c.sync.Lock()
	c.sync.Unlock() //nolint:gocritic,staticcheck // nothing is guarded, only waited for
}

// follow calls Follow for the step that is about to be adopted.
func (c *Clock) follow(ctx context.Context, next *clockState) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmFor)
	defer cancel()
	if err := c.Follow(ctx, next.latest.By(), next.isBack); err != nil {
		return fmt.Errorf("database time: %w", err)
	}
	return nil
}

// judge returns the state after an answer:
//
//  1. an answer that fits the elapsed time is accepted;
//  2. one that undoes the last step is accepted: it fits the time that passed since before the step;
//  3. one that fits the answers in doubt is accepted once they have lasted long enough;
//  4. any other is in doubt from now on.
func (s *clockState) judge(fresh *clockSample) *clockState {
	next := *s
	switch {
	case s.last == nil:
		next.last = fresh
	case s.last.off(fresh) == 0:
		if fresh.arrived.After(s.last.arrived) {
			next.last = fresh.after(s.last)
		}
		next.doubt, next.latest.Over = nil, true
	case s.former != nil && s.former.age(fresh) < rememberFor && s.former.off(fresh) == 0:
		next.see(fresh)
		next.believe(fresh)
		next.isBack = true
	case s.doubt == nil:
		next.see(fresh)
		next.doubt = &doubt{fresh, fresh}
	case s.doubt.last.off(fresh) != 0:
		next.latest.From, next.latest.To = s.last.at(fresh.arrived), fresh.databaseAt
		next.doubt = &doubt{fresh, fresh}
	case fresh.sent.Sub(s.doubt.first.arrived) > confirmFor:
		next.believe(fresh)
		next.isBack = false
	default:
		next.doubt = &doubt{s.doubt.first, fresh}
	}
	return &next
}

// see records a step.
func (s *clockState) see(fresh *clockSample) {
	s.seen++
	s.latest = Step{From: s.last.at(fresh.arrived), To: fresh.databaseAt, At: s.last.at(fresh.arrived)}
}

// believe adopts a step with its sample.
func (s *clockState) believe(fresh *clockSample) {
	s.former, s.last, s.doubt = s.last, fresh, nil
	s.steps++
	s.latest.Over, s.latest.Believed = true, true
}

// after returns the sample to use after an earlier one. When the answer arrived, the database's time was between
// databaseAt and databaseAt plus the round trip. If the clock is within that range, the answer does not prove it wrong,
// so the clock does not go back: it runs a little slower until the answer's time has caught up.
func (r *clockSample) after(earlier *clockSample) *clockSample {
	next := *r
	next.lead = min(max(earlier.at(r.arrived).Sub(r.databaseAt), 0), r.arrived.Sub(r.sent))
	return &next
}

// at returns the time at a local time, by the sample.
func (r *clockSample) at(local time.Time) time.Time {
	passed := local.Sub(r.arrived)
	return r.databaseAt.Add(passed + max(r.lead-passed/drift, 0)).Truncate(time.Microsecond)
}

// age returns how much older the sample is than another one.
func (r *clockSample) age(fresh *clockSample) time.Duration { return fresh.arrived.Sub(r.arrived) }

// off returns how far another sample deviates from the elapsed time since r; 0: within the tolerance. Each answer was
// given between its sending and its arrival; a deviation beyond both round trips is due to the database's clock.
func (r *clockSample) off(fresh *clockSample) time.Duration {
	slack := maxClockJump + r.age(fresh).Abs()/drift
	early := r.databaseAt.Add(fresh.sent.Sub(r.arrived)).Sub(fresh.databaseAt)
	late := fresh.databaseAt.Sub(r.databaseAt.Add(fresh.arrived.Sub(r.sent)))
	switch {
	case early > slack:
		return -early
	case late > slack:
		return late
	}
	return 0
}

// Err returns a ClockJumpError while the database's clock is in doubt, and nil otherwise.
func (c *Clock) Err() error {
	s := c.state.Load()
	if s.doubt == nil {
		return nil
	}
	return ClockJumpError{By: s.last.off(s.doubt.last)}
}

// InDoubt reports whether the database's answers contradict the elapsed time.
func (c *Clock) InDoubt() bool { return c.state.Load().doubt != nil }

// Steps returns the number of adopted steps.
func (c *Clock) Steps() int64 { return c.state.Load().steps }

// Latest returns the last seen step and the number of seen steps, adopted or not.
func (c *Clock) Latest() (last Step, seen int64) {
	s := c.state.Load()
	return s.latest, s.seen
}

// Stale reports whether the last accepted answer is older than d.
func (c *Clock) Stale(d time.Duration) bool {
	last := c.state.Load().last
	return last == nil || c.local().Sub(last.arrived) > d
}

// Now returns the engine's time: the database's, or slightly before it.
func (c *Clock) Now() time.Time {
	last := c.state.Load().last
	if last == nil {
		return time.Time{}
	}
	return last.at(c.local())
}

// Correct returns the engine's time for a time reported by the database: that time itself, unless it deviates by more than the
// latency of an answer.
func (c *Clock) Correct(reported time.Time) time.Time {
	if now := c.Now(); !now.IsZero() && reported.Sub(now).Abs() > 2*maxClockJump {
		return now
	}
	return reported
}

// sharedEvery is the maximum age of the last answer that places a timestamp of the database's clock.
const sharedEvery = 10 * time.Millisecond

// PlaceShared is Place for a time of the database's own clock, after a Sync if the last answer is not recent.
func (c *Clock) PlaceShared(ctx context.Context, at time.Time) time.Time {
	if c.Stale(sharedEvery) {
		_ = c.syncWithin(ctx, maxClockJump) // without an answer the time is not corrected; the sweep reports the error
	}
	return c.Place(at, true)
}

// Place corrects the time of an event as another server reports it.
//
//  1. No event is later than now.
//  2. Times from a server that shares the database's clock are corrected if the clock was wrong. A step that no node
//     has seen yet is unknown here; PlaceShared asks.
//  3. Times from a server that did not step ahead with the database are moved ahead: no clock that stepped ever
//     showed the times in between.
func (c *Clock) Place(at time.Time, shared bool) time.Time {
	now, s := c.Now(), c.state.Load()
	if now.IsZero() {
		return at
	}
	step := s.latest
	switch {
	case shared && !step.Believed && !step.To.IsZero():
		since, right := at.Sub(step.To), at.Add(-step.By())
		isWrong := step.By() > 0 && at.Sub(now) > maxClockJump/2 || step.By() < 0 && right.Sub(now) <= maxClockJump
		if isWrong && since > -confirmEvery-maxClockJump && since < confirmFor+maxClockJump {
			at = right
		}
	case !shared && step.Believed && step.By() > 0:
		if before := s.former.at(c.local()); !at.Before(step.From) && at.Sub(before) <= min(ahead, step.By()/2) {
			if before.Before(step.To) {
				c.apart.Store(s.steps)
			}
			if c.apart.Load() == s.steps {
				at = at.Add(step.By())
			}
		}
	}
	if at.Sub(now) > ahead {
		return now
	}
	return at
}
