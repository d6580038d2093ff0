package futurejobs

import (
	"context"
	"fmt"
	"sync"
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

	mu            sync.Mutex
	read          time.Time // what the database said
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
	arrived := c.local()

	c.mu.Lock()
	defer c.mu.Unlock()
	read, from, to := c.read, c.sent, c.arrived
	c.read, c.sent, c.arrived = t, sent, arrived
	if read.IsZero() {
		return nil
	}
	// Each answer was given between its sending and its arrival; what is early or late
	// beyond both trips is the clock's own doing.
	early := read.Add(sent.Sub(to)).Sub(t)
	late := t.Sub(read.Add(arrived.Sub(from)))
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read.IsZero() || c.local().Sub(c.arrived) > d
}

// Now is the database's time, or a little before it.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.IsZero() {
		return time.Time{}
	}
	return c.read.Add(c.local().Sub(c.arrived)).UTC().Truncate(time.Microsecond)
}
