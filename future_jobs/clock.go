package futurejobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// jump is how far two readings of the database's clock may lie apart from what the
// monotonic clock saw pass before somebody has to be told.
const jump = time.Second

// Clock tells the database's time without asking for it each time: the last answer plus
// the monotonic time since it arrived. So it is late by the answer's way, and never early.
type Clock struct {
	ask   func(ctx context.Context) (time.Time, error)
	local func() time.Time

	last atomic.Pointer[reading] // nil: there was none
}

// reading is an answer of the database.
type reading struct {
	said          time.Time // in UTC
	sent, arrived time.Time // between when and when, by the local clock
}

// NewClock returns a clock over the database's. local is a monotonic clock such as
// time.Now. Until the first Sync the clock shows the zero time, at which nothing is due.
func NewClock(ask func(ctx context.Context) (time.Time, error), local func() time.Time) *Clock {
	return &Clock{ask: ask, local: local}
}

// Jumped is the error of a database clock that did not pass as time did.
type Jumped struct {
	By time.Duration // forward, or backward where negative
}

func (j Jumped) Error() string {
	return fmt.Sprintf("the database's clock jumped by %s; checks pause until it runs evenly", j.By)
}

// Sync asks the database. It returns Jumped when the answer does not fit the last one; the
// new time holds from then on, so that the next Sync succeeds if the clock runs evenly again.
func (c *Clock) Sync(ctx context.Context) error {
	sent := c.local()
	t, err := c.ask(ctx)
	if err != nil {
		return fmt.Errorf("database time: %w", err)
	}
	fresh := &reading{said: t.UTC(), sent: sent, arrived: c.local()}
	last := c.last.Swap(fresh)
	if last == nil {
		return nil
	}
	// Each answer was given between its sending and its arrival; what is early or late
	// beyond both trips is the clock's own doing.
	early := last.said.Add(fresh.sent.Sub(last.arrived)).Sub(fresh.said)
	late := fresh.said.Sub(last.said.Add(fresh.arrived.Sub(last.sent)))
	switch {
	case early > jump:
		return Jumped{By: -early}
	case late > jump:
		return Jumped{By: late}
	}
	return nil
}

// Stale reports whether the last answer is older than d.
func (c *Clock) Stale(d time.Duration) bool {
	last := c.last.Load()
	return last == nil || c.local().Sub(last.arrived) > d
}

// Now is the database's time, or a little before it.
func (c *Clock) Now() time.Time {
	last := c.last.Load()
	if last == nil {
		return time.Time{}
	}
	return last.said.Add(c.local().Sub(last.arrived)).Truncate(time.Microsecond)
}
