package futurejobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// How the clock judges the database's answers.
const (
	// maxClockJump is how far an answer may be off the time that passed since the last one.
	maxClockJump = time.Second
	// drift is the part of the time that passed by which two clocks that run evenly may differ besides.
	drift = 1000
	// confirmFor is how long a step of the database's clock has to last until the engine goes by it.
	confirmFor = 10 * time.Second
	// confirmEvery is how often the database is asked for the time.
	confirmEvery = 500 * time.Millisecond
	// rememberFor is how long the clock knows the time from before a step.
	rememberFor = Day
	// ahead is how far an instant of another server may lie in the future.
	ahead = 5 * time.Second
)

// Clock tells the time that the engine goes by, without asking for it each time: the last answer of the database
// that was believed, plus the monotonic time since it arrived. So it is late by the answer's way, and never early. It goes
// back only by a step, and where an answer shows that it was ahead; never because an answer took longer than the one before.
//
// A step of the database's clock is believed once it has lasted for 10 s, or at once where it takes back the last
// step. Until then the clock goes on by the time that passed. See docs/adr/0049.
type Clock struct {
	ask   func(ctx context.Context) (time.Time, error)
	local func() time.Time

	// Changed is called when a step is seen, believed or over. Set before Run.
	Changed func()
	// Follow is called with a step before the clock goes by it; isBack: it takes back the last one. The step stays in doubt
	// while Follow fails. Set before Run.
	Follow func(ctx context.Context, by time.Duration, isBack bool) error

	sync  sync.Mutex   // one answer is judged at a time
	apart atomic.Int64 // after which step another server's clock was found not to have stepped
	state atomic.Pointer[clockState]
}

// clockState is what the clock knows. It does not change; the next one replaces it.
type clockState struct {
	last   *clockSample // that is believed; nil: there was none
	former *clockSample // the last from before the last step; nil: none
	doubt  *doubt       // nil: the database's clock runs evenly
	steps  int64        // that were believed
	latest Step         // that was seen
	seen   int64        // steps, whether they were believed or not
	isBack bool         // the last step that was believed took back the one before
}

// clockSample is an answer of the database.
type clockSample struct {
	said          time.Time     // in UTC
	sent, arrived time.Time     // between when and when, by the local clock
	lead          time.Duration // by how much the clock was after said when the answer arrived; it is caught up with slowly
}

// doubt is that the database's answers do not fit the time that passed.
type doubt struct{ first, last *clockSample }

// Step is a step of the database's clock: what it showed, and what it had to show by the time that passed.
type Step struct {
	From, To time.Time
	At       time.Time // when it was seen, by the time that the engine goes by then
	Over     bool      // the clock runs evenly again
	Believed bool      // the engine goes by it
}

// By is how far the clock stepped: ahead, or back where negative.
func (s Step) By() time.Duration { return s.To.Sub(s.From) }

// NewClock returns a clock over the database's. local is a monotonic clock such as
// time.Now. Until the first Sync the clock shows the zero time, at which nothing is due.
func NewClock(ask func(ctx context.Context) (time.Time, error), local func() time.Time) *Clock {
	c := &Clock{ask: ask, local: local, Changed: func() {}, Follow: func(context.Context, time.Duration, bool) error { return nil }}
	c.state.Store(&clockState{})
	return c
}

// ClockJumpError is the error of a database clock that did not pass as time did.
type ClockJumpError struct {
	By time.Duration // ahead, or back where negative
}

func (j ClockJumpError) Error() string {
	return fmt.Sprintf("the database's clock stepped by %s; checks go by the time that passed until the clock is back, or for %s", j.By, confirmFor)
}

// Run asks the database twice a second until ctx ends. An answer that does not come is no error: the clock goes on.
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
		_ = c.syncWithin(ctx, maxClockJump) // the sweep says what keeps the database from answering
		if after := c.state.Load(); after.steps != before.steps || after.seen != before.seen || (after.doubt == nil) != (before.doubt == nil) {
			c.Changed()
		}
	}
}

// syncWithin is Sync that does not wait for an answer for longer than d: one that takes long says little.
func (c *Clock) syncWithin(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.Sync(ctx)
}

// Sync asks the database. It returns Jumped while the answers do not fit the time that passed.
func (c *Clock) Sync(ctx context.Context) error {
	sent := c.local()
	t, err := c.ask(ctx)
	if err != nil {
		return fmt.Errorf("database time: %w", err)
	}
	c.sync.Lock()
	defer c.sync.Unlock()
	before := c.state.Load()
	next := before.judge(&clockSample{said: t.UTC(), sent: sent, arrived: c.local()})
	if next.steps > before.steps {
		if err := c.follow(ctx, next); err != nil {
			return errors.Join(err, c.Err())
		}
	}
	c.state.Store(next)
	return c.Err()
}

// await returns once the clock goes by each step that Follow was called with.
func (c *Clock) await() {
	c.sync.Lock()
	c.sync.Unlock() //nolint:gocritic,staticcheck // nothing is guarded, only waited for
}

// follow tells of the step that is about to be believed.
func (c *Clock) follow(ctx context.Context, next *clockState) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmFor)
	defer cancel()
	if err := c.Follow(ctx, next.latest.By(), next.isBack); err != nil {
		return fmt.Errorf("database time: %w", err)
	}
	return nil
}

// judge is the state after an answer:
//
//  1. one that fits the time that passed is believed;
//  2. one that takes back the last step is believed: the time that passed since before it says the same;
//  3. one that fits the answers in doubt is believed once they have lasted long enough;
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
		next.latest.From, next.latest.To = s.last.at(fresh.arrived), fresh.said
		next.doubt = &doubt{fresh, fresh}
	case fresh.sent.Sub(s.doubt.first.arrived) > confirmFor:
		next.believe(fresh)
		next.isBack = false
	default:
		next.doubt = &doubt{s.doubt.first, fresh}
	}
	return &next
}

// see notes a step.
func (s *clockState) see(fresh *clockSample) {
	s.seen++
	s.latest = Step{From: s.last.at(fresh.arrived), To: fresh.said, At: s.last.at(fresh.arrived)}
}

// believe goes by an answer from now on.
func (s *clockState) believe(fresh *clockSample) {
	s.former, s.last, s.doubt = s.last, fresh, nil
	s.steps++
	s.latest.Over, s.latest.Believed = true, true
}

// after is the reading that the clock goes by after an earlier one. When the answer arrived, it was between said and said plus
// the answer's trip. Where the clock shows a time between, the answer does not say that it is wrong, so it does not go back: it
// goes a little slower until the answer's time has caught up with it.
func (r *clockSample) after(earlier *clockSample) *clockSample {
	next := *r
	next.lead = min(max(earlier.at(r.arrived).Sub(r.said), 0), r.arrived.Sub(r.sent))
	return &next
}

// at is the time at a local instant, by the reading.
func (r *clockSample) at(local time.Time) time.Time {
	passed := local.Sub(r.arrived)
	return r.said.Add(passed + max(r.lead-passed/drift, 0)).Truncate(time.Microsecond)
}

// age is how long before another one the reading was.
func (r *clockSample) age(fresh *clockSample) time.Duration { return fresh.arrived.Sub(r.arrived) }

// off is how far another reading is off the time that passed since r; 0: no more than clocks that run evenly are.
// Each answer was given between its sending and its arrival; what is beyond both trips is the clock's own doing.
func (r *clockSample) off(fresh *clockSample) time.Duration {
	slack := maxClockJump + r.age(fresh).Abs()/drift
	early := r.said.Add(fresh.sent.Sub(r.arrived)).Sub(fresh.said)
	late := fresh.said.Sub(r.said.Add(fresh.arrived.Sub(r.sent)))
	switch {
	case early > slack:
		return -early
	case late > slack:
		return late
	}
	return 0
}

// Err is Jumped while the database's clock is in doubt, and else nil.
func (c *Clock) Err() error {
	s := c.state.Load()
	if s.doubt == nil {
		return nil
	}
	return ClockJumpError{By: s.last.off(s.doubt.last)}
}

// InDoubt reports whether the database's answers do not fit the time that passed.
func (c *Clock) InDoubt() bool { return c.state.Load().doubt != nil }

// Steps is how many steps were believed so far.
func (c *Clock) Steps() int64 { return c.state.Load().steps }

// Latest returns the last step that was seen, and how many there were, believed or not.
func (c *Clock) Latest() (last Step, seen int64) {
	s := c.state.Load()
	return s.latest, s.seen
}

// Stale reports whether the last answer that was believed is older than d.
func (c *Clock) Stale(d time.Duration) bool {
	last := c.state.Load().last
	return last == nil || c.local().Sub(last.arrived) > d
}

// Now is the time that the engine goes by; the database's, or a little before it.
func (c *Clock) Now() time.Time {
	last := c.state.Load().last
	if last == nil {
		return time.Time{}
	}
	return last.at(c.local())
}

// Correct returns the time that the engine goes by when said is the database's time: said itself, unless it is off by more
// than an answer takes.
func (c *Clock) Correct(said time.Time) time.Time {
	if now := c.Now(); !now.IsZero() && said.Sub(now).Abs() > 2*maxClockJump {
		return now
	}
	return said
}

// sharedEvery is how old the last answer may be that something stamped by the database's clock is placed by.
const sharedEvery = 10 * time.Millisecond

// PlaceShared is Place of an instant by the database's own clock, which is asked where it was not just now.
func (c *Clock) PlaceShared(ctx context.Context, at time.Time) time.Time {
	if c.Stale(sharedEvery) {
		_ = c.syncWithin(ctx, maxClockJump) // what is not known is not put right; the sweep says what is wrong
	}
	return c.Place(at, true)
}

// Place is when something happened that another server says happened at an instant.
//
//  1. Nothing happened later than now.
//  2. What a server that shares the database's clock stamped while that was wrong is put right. A step that no node
//     has seen yet is unknown here; PlaceShared asks.
//  3. What a server stamped that did not step ahead when the database did is put ahead: no clock that stepped ever
//     showed the instants between.
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
