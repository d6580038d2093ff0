package futurejobs

import (
	"time"

	"deadman/checks"
)

// OutcomeKind tells whether the expected event of an ended job happened. Its values are stored.
type OutcomeKind int16

// The kinds of outcomes. Jobs that were cancelled, restarted or deleted with their rule have none.
const (
	InTime OutcomeKind = iota // resolved or cleared before the first step
	Late                      // resolved or cleared after a step
	Never                     // ended in another way, with an alert
)

// KindOf returns the kind of the outcome of a job that took a number of steps; counted is false for a job that was cancelled,
// restarted or deleted with its rule.
func KindOf(o checks.Outcome, steps int) (kind OutcomeKind, counted bool) {
	switch {
	case o == checks.Cancelled, o == checks.Restarted, o == checks.RuleDeleted:
		return 0, false
	case o == checks.Exhausted, o == checks.Expired, o == checks.Undetermined, o.IsGuard():
		return Never, true
	case steps > 0:
		return Late, true
	}
	return InTime, true
}

// OutcomeHour is the number of jobs that ended in one hour, with one kind of outcome and after about the same time.
type OutcomeHour struct {
	Hour time.Time // start of the hour
	Kind OutcomeKind
	Took time.Duration // from the start of the job to its end, rounded down by at most a tenth; 0 for Never
	Jobs int64
}

// Statistics has the ended jobs of rules in the counted part of a window.
type Statistics struct {
	Hours []OutcomeHour
	Since time.Time // start of the first counted hour of any rule; zero: none is counted
	Until time.Time // end of the last counted hour and of the window; zero: none is counted
}

// DayOutcomes has the number of jobs of a rule by kind and hour of a day.
type DayOutcomes [Never + 1][24]int64

// LastDay has the ended jobs of all rules in a day.
type LastDay struct {
	Until time.Time              // end of the day and of the last counted hour; zero: none is counted
	Rules map[int32]*DayOutcomes // by the id of the rule; without rules of which no job ended
}
