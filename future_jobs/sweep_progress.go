package futurejobs

import (
	"sync/atomic"
	"time"
)

// sweepProgress is the progress of a completed sweep.
type sweepProgress struct {
	through         time.Time // all jobs due by then were read
	oldestUnhandled time.Time // the oldest slot that was not handled; zero: none
	oldestOwn       time.Time // the same, without jobs that wait for a source or a handler
}

// progress tells how far the sweep of this node is. It is safe for concurrent use.
type progress struct {
	catalog RuleReader
	owner   *Owner
	clock   *Clock
	swept   atomic.Pointer[sweepProgress] // of the last sweep; nil: none yet
}

// through returns when the last completed sweep began; zero: none yet.
func (p *progress) through() time.Time {
	if swept := p.swept.Load(); swept != nil {
		return swept.through
	}
	return time.Time{}
}

// lags returns the age of the oldest due slot that is not decided, and of the oldest that waits for no source and no
// handler.
func (p *progress) lags() (lag, own time.Duration) {
	swept := p.swept.Load()
	if swept == nil {
		return 0, 0
	}
	next := p.catalog.NextSlot(swept.through)
	oldest, oldestOwn := earliest(swept.oldestUnhandled, next), earliest(swept.oldestOwn, next)
	for _, sh := range p.owner.Open() {
		slot, ownSlot := sh.oldest()
		oldest, oldestOwn = earliest(oldest, slot), earliest(oldestOwn, ownSlot)
	}
	return p.age(oldest), p.age(oldestOwn)
}

// age returns the age of a slot; 0 for a zero or future slot.
func (p *progress) age(slot time.Time) time.Duration {
	if slot.IsZero() {
		return 0
	}
	return max(p.clock.Now().Sub(slot), 0)
}
