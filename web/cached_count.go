package web

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// How often something is counted that may take long, and how long is waited for it.
const (
	countParts = 20                    // of the time, one part is spent on counting at the most
	countRest  = 2 * time.Second       // between two counts at the least
	countWait  = 50 * time.Millisecond // for a count that goes on, before the one before is taken
	countMost  = time.Minute           // for one count, before it is given up
)

// cachedCount has what may take long to count, as of a little while ago. It is counted beside those who
// ask, only when somebody does, by one at a time, and after a count that took d not for 20 d. It is
// safe for concurrent use.
type cachedCount[T any] struct {
	what  string // for the log
	count func(context.Context) (T, error)
	now   func() time.Time // what At is by
	log   *slog.Logger

	mu    sync.Mutex
	last  countedAt[T]
	known bool          // last was counted
	took  time.Duration // the last count
	rests time.Time     // it is not counted again before
	ends  chan struct{} // is closed when the count ends that goes on; nil: none does
}

// countedAt is what was counted, and when that began.
type countedAt[T any] struct {
	What T
	At   time.Time
}

// newest is what was counted last. It waits a moment for a count that goes on, if that may be over by
// then; ok is false where nothing was counted yet.
func (c *cachedCount[T]) newest(ctx context.Context) (last countedAt[T], ok bool) {
	if ends := c.begin(ctx); ends != nil {
		wait := time.NewTimer(countWait)
		defer wait.Stop()
		select {
		case <-ends:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.known
}

// begin begins a count where it is time for one. It returns what is closed at the end of the count
// that goes on; nil: there is nothing to wait for.
func (c *cachedCount[T]) begin(ctx context.Context) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil && !time.Now().Before(c.rests) {
		c.ends = make(chan struct{})
		go c.run(context.WithoutCancel(ctx), Leaving(ctx)) // whoever asked first may leave before it ends
	}
	if c.took > countWait {
		return nil
	}
	return c.ends
}

// run counts once, unless the node stops.
func (c *cachedCount[T]) run(ctx context.Context, left <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, countMost)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-left:
			cancel()
		case <-done:
		}
	}()
	began, at := time.Now(), c.now()
	what, err := c.count(ctx)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		c.log.Warn("it could not be counted what pages show", "what", c.what, "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last, c.known = countedAt[T]{what, at}, true
	}
	c.took = time.Since(began)
	c.rests = time.Now().Add(max(countRest, countParts*c.took))
	close(c.ends)
	c.ends = nil
}
