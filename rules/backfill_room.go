package rules

import futurejobs "deadman/future_jobs"

// The bounds of a backfill, whose jobs are in memory until they are created. Two backfills are in memory at a time.
const (
	maxPast      = 100_000  // jobs
	maxPastBytes = 64 << 20 // bytes of their events, states and keys
)

// pastRef is a key with a pending job or an early event.
type pastRef struct {
	futurejobs.Ref
	isEarly bool
}

// pastBytes counts the bytes that a backfill holds. The sizes are recorded, since a fold may change the parts of a job in
// their place. The zero value is ready to be used.
type pastBytes struct {
	sizes map[pastRef]int
	total int
}

// set records the size of a key's job or early event.
func (b *pastBytes) set(ref pastRef, size int) {
	if b.sizes == nil {
		b.sizes = make(map[pastRef]int)
	}
	size += len(ref.Key)
	b.total += size - b.sizes[ref]
	b.sizes[ref] = size
}

// remove forgets the size of a key's job or early event.
func (b *pastBytes) remove(ref pastRef) {
	b.total -= b.sizes[ref]
	delete(b.sizes, ref)
}

// isOver reports whether the bytes exceed the bound.
func (b *pastBytes) isOver() bool { return b.total > maxPastBytes }
