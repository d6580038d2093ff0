package rules

import "time"

// HeldForever reports whether a look of a job at next is as good as none: it only ends the hold of a
// beat that stays away, which is for good. It is asked of jobs whose first step was taken: every other
// look at those is within the horizon.
func (r *Rule) HeldForever(next, now time.Time) bool {
	return r.beats != nil && r.document.Hold == longest && next.Sub(now) > r.engine.Limits.Horizon
}
