package futurejobs

import (
	"context"
	"sync/atomic"
	"time"
)

// Limits of a settle batch: decisions, bytes, and the time to wait while more decisions are expected. Postgres writes
// some 20 MB of alerts a second.
const (
	maxSettleBatch = 2000
	settleBytes    = 8 << 20
	settleWait     = 50 * time.Millisecond

	chunkBytes = 2 << 20 // of bodies passed to a checker at a time
)

// pipeline moves due jobs from the sweep to the settlers. Results of sources and asynchronous handlers enter it at
// decided.
type pipeline struct {
	due             chan []*task
	decided         chan []*task
	undecidedChunks atomic.Int64  // chunks that are not decided yet, plus one for a running sweep
	drained         chan struct{} // signals that undecidedChunks dropped to zero
}

func newPipeline() *pipeline {
	return &pipeline{due: make(chan []*task, 8), decided: make(chan []*task, 8), drained: make(chan struct{}, 1)}
}

// submit passes a chunk to the checkers, and blocks while they are busy.
func (b *pipeline) submit(ctx context.Context, chunk []*task) error {
	if len(chunk) == 0 {
		return nil
	}
	b.undecidedChunks.Add(1)
	select {
	case b.due <- chunk:
		return nil
	case <-ctx.Done(): // the node stops; the rows stay due
		b.done()
		return ctx.Err()
	}
}

// done marks a chunk as decided, or a sweep as read. It does not block, so that sweeps continue while settling hangs.
func (b *pipeline) done() {
	if b.undecidedChunks.Add(-1) > 0 {
		return
	}
	select {
	case b.drained <- struct{}{}:
	default: // already signalled
	}
}

// pending reports whether more decisions are expected.
func (b *pipeline) pending() bool { return b.undecidedChunks.Load() > 0 || len(b.decided) > 0 }

// batches collects decisions into batches, until decided is closed. Results of sources and handlers arrive at any
// time, and similar ones may follow: such a batch is held for the full settleWait.
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
			case <-b.drained:
			case <-cut.C:
				break fill
			}
		}
		out <- batch
	}
}

// bytesOf returns the bytes of the alerts that a batch writes.
func bytesOf(batch []*task) (n int) {
	for _, v := range batch {
		for i := range v.Alerts {
			n += v.Alerts[i].Size()
		}
	}
	return n
}
