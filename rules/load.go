package rules

import (
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/schedules"
)

// Ticks is how many waits schedules will begin in each part of a span, as far as it lies after now:
// one for each tick and key. A rule that is paused, rests or emits begins none.
func (b *Book) Ticks(span futurejobs.Span, now time.Time) []int {
	load := schedules.NewLoad(span.From, span.Until, span.Width)
	for _, r := range b.current.Load().ticking {
		v := r.versions[0]
		d := v.document
		if span.Rule != "" && span.Rule != v.saved.Name || r.paused || !d.Enabled || v.schedule == nil || d.Trigger.Emit != nil {
			continue
		}
		began := r.versions[len(r.versions)-1].saved.SavedAt // as in charges
		load.Add(v.schedule.From(began), max(len(d.Trigger.Keys), 1), now)
	}
	return load.Parts
}
