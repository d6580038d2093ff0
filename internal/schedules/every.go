package schedules

import "time"

// every ticks each span after its anchor, both in seconds. No clock change concerns it.
type every struct{ anchor, span int64 }

var _ Schedule = every{}

// Next is the next multiple of the span, counted from the anchor: nothing drifts.
func (e every) Next(after time.Time) (time.Time, bool) {
	return instantOf(e.tick(e.ticks(after) + 1))
}

// Between divides.
func (e every) Between(after, through time.Time) (n int, last time.Time) {
	before, all := e.ticks(after), e.ticks(through)
	if all <= before {
		return 0, time.Time{}
	}
	return int(all - before), time.Unix(e.tick(all), 0).UTC()
}

// Shortest is the span.
func (e every) Shortest() time.Duration { return time.Duration(e.span) * time.Second }

// From counts from another anchor.
func (e every) From(anchor time.Time) Schedule { return every{anchor: secondOf(anchor), span: e.span} }

// ticks is how many ticks there were by t.
func (e every) ticks(t time.Time) int64 { return max(0, secondOf(t)-e.anchor) / e.span }

// tick is the second of the nth tick, from 1.
func (e every) tick(n int64) int64 { return e.anchor + n*e.span }
