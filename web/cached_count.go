package web

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// The intervals and limits of counts.
const (
	countParts = 20                    // a count takes at most 1/20 of the time
	countRest  = 2 * time.Second       // minimum between two counts
	countWait  = 50 * time.Millisecond // wait for a running count, before the previous result is used
	countMost  = time.Minute           // limit of one count
)

// cachedCount caches a count that may take long. It counts in the background, on demand and one at a time; after a count
// of duration d, it does not count again for 20 d. It is safe for concurrent use.
type cachedCount[T any] struct {
	what  string // for the log
	count func(context.Context) (T, error)
	now   func() time.Time // clock of At
	log   *slog.Logger

	mu    sync.Mutex
	last  countedAt[T]
	known bool          // last is set
	took  time.Duration // duration of the last count
	rests time.Time     // no count starts before
	ends  chan struct{} // closed when the running count ends; nil if none runs
}

// countedAt is a result with the time of its start.
type countedAt[T any] struct {
	What T
	At   time.Time
}

// newest returns the last result. If the last count took at most countWait, it waits that long for a running one; ok is
// false before the first result.
func (c *cachedCount[T]) newest(ctx context.Context) (last countedAt[T], ok bool) {
	if ends := c.start(ctx); ends != nil {
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

// start starts a count if one is due. It returns a channel that is closed at the end of the running count, or nil if
// waiting is pointless.
func (c *cachedCount[T]) start(ctx context.Context) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil && !time.Now().Before(c.rests) {
		c.ends = make(chan struct{})
		go c.run(context.WithoutCancel(ctx), Leaving(ctx)) // the first client may disconnect before the count ends
	}
	if c.took > countWait {
		return nil
	}
	return c.ends
}

// run counts once, and stops early if the node drains.
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
	startedAt, at := time.Now(), c.now()
	what, err := c.count(ctx)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		c.log.Warn("background count failed", "what", c.what, "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.last, c.known = countedAt[T]{what, at}, true
	}
	c.took = time.Since(startedAt)
	c.rests = time.Now().Add(max(countRest, countParts*c.took))
	close(c.ends)
	c.ends = nil
}
