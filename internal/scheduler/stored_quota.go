package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// Allowance counts an event of a rule toward its quotas, or returns how long the event has to wait.
type Allowance func(bytes int, now time.Time) (wait time.Duration)

// quotaWait is the result for ticks that wait for a quota. They stay due.
type quotaWait struct{ span time.Duration }

func (w quotaWait) Error() string { return fmt.Sprintf("ticks wait for a quota for %s", w.span) }

// admit returns the ticks that the quotas of the rule allow, the oldest first, and how long the others wait; 0: there are no
// others. Each tick counts as its event, also if none is published: paused schedules are as much work.
func (u unit) admit(decided []futurejobs.DecidedTick) (admitted []futurejobs.DecidedTick, wait time.Duration, err error) {
	var allow Allowance
	if u.Allow != nil {
		allow = u.Allow(u.rule.Name())
	}
	if allow == nil {
		return decided, 0, nil
	}
	slices.SortStableFunc(decided, func(a, b futurejobs.DecidedTick) int {
		return cmp.Or(a.Schedule.NextAt.Compare(b.Schedule.NextAt), cmp.Compare(a.Schedule.ID, b.Schedule.ID))
	})
	for i, d := range decided {
		event, err := u.rule.Emission(futurejobs.PlannedTick{
			ScheduleTick: futurejobs.ScheduleTick{ScheduleRef: futurejobs.ScheduleRef{RuleID: d.Schedule.RuleID, ID: d.Schedule.ID}, At: d.At, Missed: d.Missed},
			Data:         d.Schedule.Data,
		})
		if err != nil {
			return nil, 0, err
		}
		if wait := allow(event.Size(), u.now); wait > 0 {
			return decided[:i], wait, nil
		}
	}
	return decided, 0, nil
}
