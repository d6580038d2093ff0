package simulation_test

import (
	"slices"
	"time"
)

// The bounds of the clocks of nodes.
const (
	aheadMost = 12 * time.Hour
	driftMost = 0.0004 // of the elapsed time
)

// nodeClock is the clock of a node: it shows another time than that of the database, and runs faster or slower.
type nodeClock struct {
	ahead time.Duration
	drift float64
}

// local returns the time of a node's own clock.
func (w *deployment) local(node string) time.Time {
	c, passed := w.plan.clocks[node], time.Since(w.plan.begin)-w.plan.slept(node, time.Now())
	return w.plan.begin.Add(c.ahead + passed + time.Duration(c.drift*float64(passed)))
}

// slept returns how long the machine of a node has slept by a time.
func (p plan) slept(node string, by time.Time) (sum time.Duration) {
	through := p.begin
	for _, f := range slices.SortedFunc(slices.Values(p.faults), func(a, b fault) int { return a.from.Compare(b.from) }) {
		from, to := later(f.from, through), f.to
		if by.Before(to) {
			to = by
		}
		if f.kind == sleep && f.node == node && from.Before(to) {
			sum, through = sum+to.Sub(from), to
		}
	}
	return sum
}
