package futurejobs

import (
	"context"
	"sync/atomic"
	"time"
)

// A settle batch is what is decided when it is cut: this many, or after this long, or sooner where no more
// is about to come.
const (
	settleMost = 2000
	settleWait = 50 * time.Millisecond
)

// belt is the way of due jobs from the sweep to the settlers. What a source or a handler finds out by
// itself joins it at decided.
type belt struct {
	due     chan []*verdict
	decided chan []*verdict // none at all: no more is about to come
	coming  atomic.Int64    // chunks before decided, and one for a sweep that reads
}

func newBelt() *belt {
	return &belt{due: make(chan []*verdict, 8), decided: make(chan []*verdict, 8)}
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

// passed says that a chunk is decided, or that a sweep has read all.
func (b *belt) passed() {
	if b.coming.Add(-1) == 0 {
		b.decided <- nil
	}
}

// batches makes batches of what is decided, until that is closed.
func (b *belt) batches(out chan<- []*verdict) {
	defer close(out)
	cut := time.NewTimer(settleWait)
	defer cut.Stop()
	for chunk := range b.decided {
		if len(chunk) == 0 {
			continue
		}
		batch := append(make([]*verdict, 0, settleMost+chunkMost), chunk...)
		cut.Reset(settleWait)
	fill:
		for len(batch) < settleMost {
			select {
			case more := <-b.decided:
				if len(more) == 0 {
					break fill
				}
				batch = append(batch, more...)
			case <-cut.C:
				break fill
			}
		}
		out <- batch
	}
}
