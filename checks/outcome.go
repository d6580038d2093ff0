package checks

import (
	"slices"

	"deadman/guards"
)

// Outcome is the reason for the end of a job, as stored in history. A rule can define others with `as`.
type Outcome string

// The outcomes of jobs that no guard ended.
const (
	Resolved     Outcome = "resolved"     // the expected event happened
	Cleared      Outcome = "cleared"      // the condition no longer holds
	Exhausted    Outcome = "exhausted"    // the last step was taken, and the hold is over
	Cancelled    Outcome = "cancelled"    // by a person
	Restarted    Outcome = "restarted"    // a new trigger restarted the job
	Expired      Outcome = "expired"      // found too late, by the rule's own limit
	RuleDeleted  Outcome = "rule_deleted" // the rule no longer exists
	Undetermined Outcome = "undetermined" // the check got no answer, and the rule ends the job in that case
)

// Outcomes returns the standard outcomes, those of the guards last. The CLI, the API, the pages and the documentation
// list them.
func Outcomes() []Outcome {
	all := []Outcome{Resolved, Cleared, Exhausted, Cancelled, Restarted, Expired, RuleDeleted, Undetermined}
	for _, b := range guards.Breaches() {
		all = append(all, Outcome(b))
	}
	return all
}

// IsGuard reports whether a guard ended the job.
func (o Outcome) IsGuard() bool { return slices.Contains(guards.Breaches(), guards.Breach(o)) }

// IsReserved reports whether a rule must not use the outcome for a resolve: it is the outcome of jobs that end without
// an event.
func (o Outcome) IsReserved() bool {
	return o != Resolved && o != Cancelled && slices.Contains(Outcomes(), o)
}
