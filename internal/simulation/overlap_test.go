package simulation_test

import (
	"maps"
	"slices"
	"time"
)

// meetEvery is the time between two moments at which calls reach a database whose transactions overlap: those of the same moment
// run at the same time.
const meetEvery = 20 * time.Millisecond

// ordersMost bounds the orders of overlapping writes that are tried.
const ordersMost = 20_000

// turns brings the writes of the database into an order.
type turns struct {
	overlaps bool          // writes run at the same time; otherwise one at a time
	held     chan struct{} // one holder at a time; a mutex would hold virtual time
	calls    int           // begins and ends until now
	running  int           // writes that have not ended
	ended    []write       // since no write ran
}

// write is a write that the database accepted.
type write struct {
	began, ended int // among all begins and ends
	at           time.Time
	note         func(*ledger) // checks and records it
}

func newTurns(overlaps bool) *turns { return &turns{overlaps: overlaps, held: make(chan struct{}, 1)} }

// lock holds all other writes off until the returned function is called.
func (t *turns) lock() (unlock func()) {
	t.held <- struct{}{}
	return func() { <-t.held }
}

// begin begins a write. The returned function ends it, and records it if it did not fail.
func (l *ledger) begin() (end func(error, func(*ledger))) {
	unlock := l.lock()
	l.calls++
	l.running++
	began := l.calls
	if l.overlaps {
		unlock()
	}
	return func(err error, note func(*ledger)) {
		if l.overlaps {
			unlock = l.lock()
		}
		defer unlock()
		l.calls++
		if err == nil && note != nil {
			l.ended = append(l.ended, write{began, l.calls, time.Now(), note})
		}
		if l.running--; l.running == 0 {
			l.recordAll(l.ended)
			l.ended = nil
		}
	}
}

// recordAll records writes that overlap. They are right if an order of them is.
func (l *ledger) recordAll(all []write) {
	if len(all) > 1 {
		l.count("writes overlap")
		tries := 0
		order, ok := l.order(all, &tries)
		switch {
		case ok:
			all = order
		case tries > ordersMost:
			l.breach("%d writes overlap in too many orders", len(all))
		}
		if ok && tries > len(all) {
			l.count("writes overlap, and their answers came in another order")
		}
	}
	for _, w := range all {
		l.add(w)
	}
}

// add records a write.
func (l *ledger) add(w write) {
	l.now = w.at
	w.note(l)
}

// order returns the writes in an order without a breach. A write that ended before another one began precedes it.
func (l *ledger) order(left []write, tries *int) (order []write, ok bool) {
	if len(left) == 0 {
		return nil, true
	}
	for i, w := range left {
		if slices.ContainsFunc(left, func(other write) bool { return other.ended < w.began }) {
			continue
		}
		if *tries++; *tries > ordersMost {
			return nil, false
		}
		next := l.trial()
		if next.add(w); len(next.breaches) > 0 {
			continue
		}
		if rest, ok := next.order(without(left, i), tries); ok {
			return slices.Insert(rest, 0, w), true
		}
	}
	return nil, false
}

// trial returns a copy of a ledger without its breaches, which counts nothing and tells no story.
func (l *ledger) trial() *ledger {
	c := *l
	c.isTrial, c.breaches = true, nil
	c.grants, c.decided, c.cursors, c.opened = maps.Clone(l.grants), maps.Clone(l.decided), maps.Clone(l.cursors), maps.Clone(l.opened)
	c.ends, c.unseen, c.replaced, c.rules = maps.Clone(l.ends), maps.Clone(l.unseen), maps.Clone(l.replaced), maps.Clone(l.rules)
	c.acked, c.ticks, c.holdings = maps.Clone(l.acked), maps.Clone(l.ticks), maps.Clone(l.holdings)
	return &c
}

// count counts something that happened.
func (l *ledger) count(what string) {
	if !l.isTrial {
		l.deployment.count(what)
	}
}

// record adds a line to the story.
func (l *ledger) record(who, format string, args ...any) {
	if !l.isTrial {
		l.deployment.record(who, format, args...)
	}
}
