package rules

import (
	"time"

	futurejobs "deadman/future_jobs"
)

// maxSpread bounds the intentional delay of a step.
const maxSpread = Duration(futurejobs.Day)

// spreadSlot returns the slot of a key for a step that is due at the given time for all keys. If the step's calendar
// has closed by then, the slot is when it opens.
func (r *Rule) spreadSlot(w waitContext, s *step, at time.Time) time.Time {
	if later := r.later(w.key); later > 0 {
		return s.within.Next(at.Add(later))
	}
	return at
}

// later returns the delay of the steps of a key against those of the first: a whole number of slots, so that each slot
// of the spread has about as many keys as any other.
func (r *Rule) later(key string) time.Duration {
	return time.Duration(r.spreadIndex(key)) * time.Duration(r.engine.Grid)
}

// spreadIndex returns by how many slots the steps of a key are later.
func (r *Rule) spreadIndex(key string) int {
	if r.spread <= 1 {
		return 0
	}
	return futurejobs.SpreadIndex(r.engine.Name, key, r.spread)
}
