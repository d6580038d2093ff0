package scheduler

import (
	"container/heap"
	"time"

	futurejobs "deadman/future_jobs"
)

// ruleTicks is the ticks of one rule, and how far they were applied.
type ruleTicks struct {
	futurejobs.TickingRule
	cursor uint64    // the second of the last tick that was applied, as it is stored
	past   uint64    // the same, but now where that is of the future
	at     time.Time // when to look at it: its next tick, or another try
	place  int       // in the heap
	held   time.Time // since when its tick waits for a look at what is due; zero: it does not
}

// after is the instant that the next tick comes after.
func (l *ruleTicks) after() time.Time { return time.Unix(int64(l.past), 0).UTC() } //nolint:gosec // a second since 1970

// tickQueue are those of all rules that have a tick to come, the first of them first.
type tickQueue struct{ heap []*ruleTicks }

// first is the line to look at first, of some.
func (ls *tickQueue) first() *ruleTicks { return ls.heap[0] }

// add takes in a line whose rule has a tick to come.
func (ls *tickQueue) add(l *ruleTicks) {
	if next, ok := l.Next(l.after()); ok {
		l.at = next
		heap.Push(ls, l)
	}
}

// put has a line looked at later.
func (ls *tickQueue) put(l *ruleTicks, at time.Time) {
	l.at = at
	heap.Fix(ls, l.place)
}

// moved goes on to the next tick of a line that was applied up to a cursor.
func (ls *tickQueue) moved(l *ruleTicks, cursor uint64) {
	l.cursor, l.past, l.held = cursor, cursor, time.Time{}
	if next, ok := l.Next(l.after()); ok {
		ls.put(l, next)
	} else {
		heap.Remove(ls, l.place)
	}
}

// Len implements heap.Interface, and so do the following.
func (ls *tickQueue) Len() int           { return len(ls.heap) }
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
