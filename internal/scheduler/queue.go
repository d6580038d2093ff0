package scheduler

import (
	"container/heap"
	"maps"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
)

// ruleTicks holds the ticks of one rule, and how far they were applied.
type ruleTicks struct {
	futurejobs.TickingRule
	cursor uint64    // the Unix second of the last applied tick, as stored
	past   uint64    // the same, but now if that is in the future
	at     time.Time // its next tick, or the next attempt; zero: it has no next tick

	alertSince time.Time // start of the open alert about its ticks; zero: none is open
}

// after returns the time after which the next tick is due.
func (l *ruleTicks) after() time.Time { return time.Unix(int64(l.past), 0).UTC() } //nolint:gosec // a second since 1970

// advance continues after the ticks up to a cursor, and returns the time of the next tick, or zero.
func (l *ruleTicks) advance(cursor uint64) time.Time {
	l.cursor, l.past = cursor, cursor
	next, _ := l.Next(l.after())
	return next
}

// tickQueue orders the rules with a next tick by its time.
type tickQueue struct{ heap []*ruleTicks }

// first returns the rule with the earliest time. The queue must not be empty.
func (ls *tickQueue) first() *ruleTicks { return ls.heap[0] }

// put adds a rule, if it has a next tick.
func (ls *tickQueue) put(l *ruleTicks) {
	if !l.at.IsZero() {
		heap.Push(ls, l)
	}
}

// takeDue removes up to n rules whose time has come, and returns them in the order of time.
func (ls *tickQueue) takeDue(now time.Time, n int) (due []*ruleTicks) {
	for len(due) < n && ls.Len() > 0 && !ls.first().at.After(now) {
		due = append(due, heap.Pop(ls).(*ruleTicks))
	}
	return due
}

// Len implements heap.Interface.
func (ls *tickQueue) Len() int { return len(ls.heap) }

// Less implements heap.Interface.
func (ls *tickQueue) Less(i, j int) bool { return ls.heap[i].at.Before(ls.heap[j].at) }

// Swap implements heap.Interface.
func (ls *tickQueue) Swap(i, j int) { ls.heap[i], ls.heap[j] = ls.heap[j], ls.heap[i] }

// Push implements heap.Interface.
func (ls *tickQueue) Push(x any) { ls.heap = append(ls.heap, x.(*ruleTicks)) }

// Pop implements heap.Interface.
func (ls *tickQueue) Pop() any {
	last := len(ls.heap) - 1
	l := ls.heap[last]
	ls.heap = ls.heap[:last]
	return l
}

// dueWaits has since when ticks wait for the check of a due job. It outlasts the queue, which is built anew after each change of
// the rules.
type dueWaits struct {
	mu    sync.Mutex
	rules map[int32]dueWait // by the id of the rule
}

type dueWait struct {
	cursor uint64 // of the rule
	since  time.Time
}

// begin records that a tick waits, unless it waits already.
func (d *dueWaits) begin(l *ruleTicks, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rules == nil {
		d.rules = make(map[int32]dueWait)
	}
	if wait, waits := d.rules[l.RuleID()]; !waits || wait.cursor != l.cursor || wait.since.After(now) {
		d.rules[l.RuleID()] = dueWait{l.cursor, now}
	}
}

// time returns how long the next tick of a rule has waited.
func (d *dueWaits) time(l *ruleTicks, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if wait, waits := d.rules[l.RuleID()]; waits && wait.cursor == l.cursor {
		return now.Sub(wait.since)
	}
	return 0
}

// keep forgets the rules that a new queue does not have.
func (d *dueWaits) keep(queued map[int32]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.rules, func(id int32, _ dueWait) bool { return !queued[id] })
}
