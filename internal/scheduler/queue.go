package scheduler

import (
	"container/heap"
	"time"

	futurejobs "deadman/future_jobs"
)

// ruleTicks holds the ticks of one rule, and how far they were applied.
type ruleTicks struct {
	futurejobs.TickingRule
	cursor uint64    // the Unix second of the last applied tick, as stored
	past   uint64    // the same, but now if that is in the future
	at     time.Time // its next tick, or the next attempt
	place  int       // index in the heap
	held   time.Time // since when its tick waits for the check of a due job; zero: it does not
}

// after returns the time after which the next tick is due.
func (l *ruleTicks) after() time.Time { return time.Unix(int64(l.past), 0).UTC() } //nolint:gosec // a second since 1970

// tickQueue orders the rules with a next tick by its time.
type tickQueue struct{ heap []*ruleTicks }

// first returns the rule with the earliest time. The queue must not be empty.
func (ls *tickQueue) first() *ruleTicks { return ls.heap[0] }

// add adds a rule, if it has a next tick.
func (ls *tickQueue) add(l *ruleTicks) {
	if next, ok := l.Next(l.after()); ok {
		l.at = next
		heap.Push(ls, l)
	}
}

// put delays a rule until the given time.
func (ls *tickQueue) put(l *ruleTicks, at time.Time) {
	l.at = at
	heap.Fix(ls, l.place)
}

// advance continues with the next tick of a rule with ticks applied up to a cursor.
func (ls *tickQueue) advance(l *ruleTicks, cursor uint64) {
	l.cursor, l.past, l.held = cursor, cursor, time.Time{}
	if next, ok := l.Next(l.after()); ok {
		ls.put(l, next)
	} else {
		heap.Remove(ls, l.place)
	}
}

// Len implements heap.Interface.
func (ls *tickQueue) Len() int { return len(ls.heap) }

// Less implements heap.Interface.
func (ls *tickQueue) Less(i, j int) bool { return ls.heap[i].at.Before(ls.heap[j].at) }

// Swap implements heap.Interface.
func (ls *tickQueue) Swap(i, j int) {
	ls.heap[i], ls.heap[j] = ls.heap[j], ls.heap[i]
	ls.heap[i].place, ls.heap[j].place = i, j
}

// Push implements heap.Interface.
func (ls *tickQueue) Push(x any) {
	l := x.(*ruleTicks)
	l.place = len(ls.heap)
	ls.heap = append(ls.heap, l)
}

// Pop implements heap.Interface.
func (ls *tickQueue) Pop() any {
	last := len(ls.heap) - 1
	l := ls.heap[last]
	ls.heap = ls.heap[:last]
	return l
}
