package futurejobs

import (
	"context"
	"sync/atomic"
	"time"
)

// A settle batch is what is decided when it is cut: this many, or so many bytes, or after this long, or sooner
// where no more is about to come. Postgres writes some 20 MB of alerts a second.
const (
	settleMost  = 2000
	settleBytes = 8 << 20
	settleWait  = 50 * time.Millisecond

	chunkBytes = 2 << 20 // of bodies that a checker is given at a time
)

// belt is the way of due jobs from the sweep to the settlers. What a source or a handler finds out by
// itself joins it at decided.
type belt struct {
	due     chan []*verdict
	decided chan []*verdict
	coming  atomic.Int64  // chunks before decided, and one for a sweep that reads
	still   chan struct{} // nothing is coming any more
}

func newBelt() *belt {
	return &belt{due: make(chan []*verdict, 8), decided: make(chan []*verdict, 8), still: make(chan struct{}, 1)}
}

// hand hands a chunk to the checkers, waiting while they are busy.
func (b *belt) hand(ctx context.Context, chunk []*verdict) error {
	if len(chunk) == 0 {
		return nil
	}
	b.coming.Add(1)
	select {
	case b.due <- chunk:
		return nil
	case <-ctx.Done(): // the node stops; the rows stay due
		b.passed()
		return ctx.Err()
	}
}

// passed says that a chunk is decided, or that a sweep has read all. It waits for nobody, so that sweeps go
// on while settles hang.
func (b *belt) passed() {
	if b.coming.Add(-1) > 0 {
		return
	}
	select {
	case b.still <- struct{}{}:
	default: // it was said already
	}
}

// more reports whether more is about to come.
func (b *belt) more() bool { return b.coming.Load() > 0 || len(b.decided) > 0 }

// batches makes batches of what is decided, until that is closed. What waited for somebody else comes when it
// does, and others like it may follow: it is given the time that a batch has.
func (b *belt) batches(out chan<- []*verdict) {
	defer close(out)
	cut := time.NewTimer(settleWait)
	defer cut.Stop()
	for batch := range b.decided {
		waited, bytes := batch[0].out(), bytesOf(batch)
		cut.Reset(settleWait)
	fill:
		for len(batch) < settleMost && bytes < settleBytes && (waited || b.more()) {
			select {
			case chunk, open := <-b.decided:
				if !open {
					break fill
				}
				batch, waited = append(batch, chunk...), waited || chunk[0].out()
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
func bytesOf(batch []*verdict) (n int) {
	for _, v := range batch {
		for i := range v.Alerts {
			n += v.Alerts[i].Size()
		}
	}
	return n
}
