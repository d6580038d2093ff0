// Package guards bounds the answers of handlers. It is pure: no clock, no I/O.
package guards

import (
	"fmt"
	"time"
)

// Limits bound the handler of one rule. A zero field sets no bound; rules fill in the defaults.
type Limits struct {
	// Timeout bounds one check.
	Timeout time.Duration
	// Attempts is the number of consecutive failed checks after which an alert reports them.
	Attempts int
	// Interval is the minimum delay before the second attempt; it doubles with each.
	Interval time.Duration
	// Jitter is the maximum added to an interval.
	Jitter time.Duration
	// MaxChecks bounds the decided checks of one job.
	MaxChecks int
	// Horizon bounds the time from a check's slot to the next check that it requests.
	Horizon time.Duration
	// End ends a job once its attempts are spent; otherwise further checks follow.
	End bool
}

// Breach names a violated guard. It is the outcome of the job.
type Breach string

// The guards, by their outcome in history.
const (
	None      Breach = ""
	Timeout   Breach = "guard_timeout"
	MaxChecks Breach = "guard_max_checks"
	Horizon   Breach = "guard_horizon"
	Past      Breach = "guard_past"
)

// Breaches returns all guards. A new guard is added here, to Judge and to Explain; docs/architecture.md has the other
// places. History, the API, the CLI, the pages and the tests of the documentation use the list.
func Breaches() []Breach { return []Breach{Timeout, MaxChecks, Horizon, Past} }

// Judge returns the guard that a next check at the given time violates, or None.
//
//  1. A next time that is not after the current slot would repeat forever.
//  2. A next time beyond the horizon would leave the job unchecked for too long.
//  3. More decided checks than allowed mean a handler that never ends its job.
//
// slot is the current slot and count the number of decided checks, including this one.
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

// Spent reports whether the number of consecutive failed checks uses up the attempts.
func (l Limits) Spent(attempts int) bool {
	return attempts >= max(l.Attempts, 1)
}

// Explain returns a sentence on the reason for the job's end, and the setting to change.
func (l Limits) Explain(b Breach, slot, next time.Time) string {
	switch b {
	case Past:
		return fmt.Sprintf("the handler requested a check at %s, which is not after the checked slot (%s)",
			next.Format(time.RFC3339), slot.Format(time.RFC3339))
	case Horizon:
		return fmt.Sprintf("the handler requested the next check after %s; guards.horizon is %s", next.Sub(slot), l.Horizon)
	case MaxChecks:
		return fmt.Sprintf("it was checked %d times, the limit of guards.max_checks", l.MaxChecks)
	case Timeout:
		return fmt.Sprintf("the handler took longer than guards.timeout, %s, %d times in a row", l.Timeout, max(l.Attempts, 1))
	}
	return ""
}
