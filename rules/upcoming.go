package rules

import (
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// upcoming is the slot at which something can be said next, where so many steps were taken and
// what was said is acknowledged until an instant; the zero time, where nothing is any more. A
// step that is due by at and is held back speaks once the acknowledgement is over. Those after it
// are looked at all the same, because the condition may not hold any more by then. Where there is none,
// those that are repeated until somebody acknowledges are not, if that is for good.
func (r *Rule) upcoming(line []stepTime, step int, at, ackedUntil time.Time) time.Time {
	if step >= len(line) {
		return time.Time{}
	}
	good := ackedUntil.Equal(checks.Forever)
	held := at.Before(ackedUntil) && !r.engine.Grid.Up(line[step].at).After(at)
	var next time.Time
	if held && !good {
		next = r.engine.Grid.Up(ackedUntil)
	}
	for _, m := range line[step:] {
		slot := r.engine.Grid.Up(m.at)
		if good && m.nags && r.while == nil || held && !slot.After(at) {
			continue
		}
		if next.IsZero() || slot.Before(next) {
			return slot
		}
		break
	}
	return next
}

// upcomingOf is upcoming of a job; the zero time too, where nobody knows.
func (r *Rule) upcomingOf(j futurejobs.Job, now time.Time) time.Time {
	line, err := r.timeline(waitOf(j))
	if err != nil {
		return time.Time{} // the look says so
	}
	return r.upcoming(line, j.Step, now, j.AckedUntil)
}
