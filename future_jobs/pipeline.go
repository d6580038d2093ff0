package futurejobs

import (
	"context"
	"sync/atomic"
	"time"
)

// A settle batch is what is decided when it is cut: this many, or so many bytes, or after this long, or sooner
// where no more is about to come. Postgres writes some 20 MB of alerts a second.
const (
	maxSettleBatch = 2000
	settleBytes    = 8 << 20
	settleWait     = 50 * time.Millisecond

	chunkBytes = 2 << 20 // of bodies that a checker is given at a time
)

// pipeline is the way of due jobs from the sweep to the settlers. What a source or a handler finds out by
// itself joins it at decided.
type pipeline struct {
	due     chan []*task
	decided chan []*task
	coming  atomic.Int64  // chunks before decided, and one for a sweep that reads
	still   chan struct{} // nothing is coming any more
}

func newPipeline() *pipeline {
	return &pipeline{due: make(chan []*task, 8), decided: make(chan []*task, 8), still: make(chan struct{}, 1)}
}

// submit hands a chunk to the checkers, waiting while they are busy.
func (b *pipeline) submit(ctx context.Context, chunk []*task) error {
	if len(chunk) == 0 {
		return nil
	}
	b.coming.Add(1)
	select {
	case b.due <- chunk:
		return nil
	case <-ctx.Done(): // the node stops; the rows stay due
		b.done()
		return ctx.Err()
	}
}

// done says that a chunk is decided, or that a sweep has read all. It waits for nobody, so that sweeps go
// on while settles hang.
func (b *pipeline) done() {
	if b.coming.Add(-1) > 0 {
		return
	}
	select {
	case b.still <- struct{}{}:
	default: // it was said already
	}
}

// pending reports whether more is about to come.
func (b *pipeline) pending() bool { return b.coming.Load() > 0 || len(b.decided) > 0 }

// batches makes batches of what is decided, until that is closed. What waited for somebody else comes when it
// does, and others like it may follow: it is given the time that a batch has.
func (b *pipeline) batches(out chan<- []*task) {
	defer close(out)
	cut := time.NewTimer(settleWait)
	defer cut.Stop()
	for batch := range b.decided {
		waited, bytes := batch[0].waitsForIO(), bytesOf(batch)
		cut.Reset(settleWait)
	fill:
		for len(batch) < maxSettleBatch && bytes < settleBytes && (waited || b.pending()) {
			select {
			case chunk, open := <-b.decided:
				if !open {
					break fill
				}
				batch, waited = append(batch, chunk...), waited || chunk[0].waitsForIO()
				bytes += bytesOf(chunk)
			case <-b.still:
			case <-cut.C:
				break fill
			}
		}
		out <- batch
	}
}

// bytesOf is how many bytes the bodies have that a batch writes.
func bytesOf(batch []*task) (n int) {
	for _, v := range batch {
		for i := range v.Alerts {
			n += v.Alerts[i].Size()
		}
	}
	return n
}
