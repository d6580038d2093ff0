package scheduler

import (
	"container/heap"
	"time"

	futurejobs "deadman/future_jobs"
)

// line is the ticks of one rule, and how far they were applied.
type line struct {
	futurejobs.Scheduled
	cursor uint64    // the second of the last tick that was applied, as it is stored
	past   uint64    // the same, but now where that is of the future
	at     time.Time // when to look at it: its next tick, or another try
	place  int       // in the heap
	held   time.Time // since when its tick waits for a look at what is due; zero: it does not
}

// after is the instant that the next tick comes after.
func (l *line) after() time.Time { return time.Unix(int64(l.past), 0).UTC() } //nolint:gosec // a second since 1970

// lines are those of all rules that have a tick to come, the first of them first.
type lines struct{ heap []*line }

// first is the line to look at first, of some.
func (ls *lines) first() *line { return ls.heap[0] }

// add takes in a line whose rule has a tick to come.
func (ls *lines) add(l *line) {
	if next, ok := l.Next(l.after()); ok {
		l.at = next
		heap.Push(ls, l)
	}
}

// put has a line looked at later.
func (ls *lines) put(l *line, at time.Time) {
	l.at = at
	heap.Fix(ls, l.place)
}

// moved goes on to the next tick of a line that was applied up to a cursor.
func (ls *lines) moved(l *line, cursor uint64) {
	l.cursor, l.past, l.held = cursor, cursor, time.Time{}
	if next, ok := l.Next(l.after()); ok {
		ls.put(l, next)
	} else {
		heap.Remove(ls, l.place)
	}
}

// Len implements heap.Interface, and so do the following.
func (ls *lines) Len() int           { return len(ls.heap) }
func (ls *lines) Less(i, j int) bool { return ls.heap[i].at.Before(ls.heap[j].at) }

// Swap implements heap.Interface.
func (ls *lines) Swap(i, j int) {
	ls.heap[i], ls.heap[j] = ls.heap[j], ls.heap[i]
	ls.heap[i].place, ls.heap[j].place = i, j
}

// Push implements heap.Interface.
func (ls *lines) Push(x any) {
	l := x.(*line)
	l.place = len(ls.heap)
	ls.heap = append(ls.heap, l)
}

// Pop implements heap.Interface.
func (ls *lines) Pop() any {
	last := len(ls.heap) - 1
	l := ls.heap[last]
	ls.heap = ls.heap[:last]
	return l
}
