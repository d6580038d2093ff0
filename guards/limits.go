// Package guards bounds what a handler may ask for. It is pure: no clock, no I/O.
package guards

import (
	"fmt"
	"time"
)

// Limits bound the handler of one rule. The zero value of a field means that
// nothing is bounded by it; rules fill in the defaults.
type Limits struct {
	// Timeout bounds one check.
	Timeout time.Duration
	// Attempts is how many checks in a row may fail to find out before that is said.
	Attempts int
	// Interval is how long to wait before the second attempt at least; it doubles with each.
	Interval time.Duration
	// Jitter is the most that is added to an interval.
	Jitter time.Duration
	// MaxChecks bounds the decided checks of one occurrence.
	MaxChecks int
	// Horizon bounds how far after its slot a check may ask for the next one.
	Horizon time.Duration
	// End makes a job end once its attempts are spent; otherwise it is looked at again.
	End bool
}

// Breach names the guard that was broken; it is the outcome of the job that broke it.
type Breach string

// The guards, by the outcome that breaking them leaves in history.
const (
	None      Breach = ""
	Timeout   Breach = "guard_timeout"
	MaxChecks Breach = "guard_max_checks"
	Horizon   Breach = "guard_horizon"
	Past      Breach = "guard_past"
)

// Judge says whether a job may be looked at again at next.
//
//  1. A next time that is not after the slot just checked would be looked at forever.
//  2. A next time beyond the horizon is a watcher gone quiet.
//  3. More decided checks than allowed is a handler that never comes to an end.
//
// slot is the slot just checked and count the number of decided checks including this one.
func (l Limits) Judge(slot, next time.Time, count int) Breach {
	switch {
	case !next.After(slot):
		return Past
	case l.Horizon > 0 && next.Sub(slot) > l.Horizon:
		return Horizon
	case l.MaxChecks > 0 && count >= l.MaxChecks:
		return MaxChecks
	}
	return None
}

// Spent reports whether that many checks in a row that could not find out are one too many.
func (l Limits) Spent(attempts int) bool {
	return attempts >= max(l.Attempts, 1)
}

// Explain says in a sentence why b ends a job, and what to change.
func (l Limits) Explain(b Breach, slot, next time.Time) string {
	switch b {
	case Past:
		return fmt.Sprintf("the handler asked to look again at %s, which is not after the slot it looked at (%s)",
			next.Format(time.RFC3339), slot.Format(time.RFC3339))
	case Horizon:
		return fmt.Sprintf("the handler asked to look again in %s; guards.horizon is %s", next.Sub(slot), l.Horizon)
	case MaxChecks:
		return fmt.Sprintf("it was looked at %d times, which is what guards.max_checks allows", l.MaxChecks)
	case Timeout:
		return fmt.Sprintf("the handler took longer than guards.timeout, %s, %d times in a row", l.Timeout, max(l.Attempts, 1))
	}
	return ""
}
