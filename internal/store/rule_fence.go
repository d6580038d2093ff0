package store

import (
	"slices"

	futurejobs "deadman/future_jobs"
)

// The rows that a transaction depends on stay as evaluated until the commit (decision 54):
//
//  - Settle depends on rule.fence of the rules of its jobs,
//  - Apply depends on event_cursor.revision of its stream, or on rule.revision of its rules,
//  - all of them depend on rule_set.revision while a node of schema 16 runs, as its changes leave no other trace.
//
// A closed gate admits no new transaction, so overlapping transactions cannot hold off a change.

// olderNode is the statement that finds a node that changes rules without a fence. A dead node may still have a change
// in flight, so it counts for another minute.
const olderNode = `SELECT id FROM node WHERE coalesce(schema_known, 16) < 17 AND expires_at > now() - interval '1 minute' LIMIT 1`

// errGateClosed means that the rules are as evaluated, but about to change. It is transient.
var errGateClosed = errGated{}

type errGated struct{}

func (errGated) Error() string { return "gate: " + futurejobs.ErrRulesChanged.Error() }

func (errGated) Unwrap() error { return futurejobs.ErrRulesChanged }

// rulesOf returns the rules of decisions, each once.
func rulesOf(decisions []*futurejobs.Decision) []int32 {
	var ids []int32
	last := int32(-1)
	for _, d := range decisions {
		if d.Job.RuleID == last {
			continue // the common case
		}
		if last = d.Job.RuleID; !slices.Contains(ids, last) {
			ids = append(ids, last)
		}
	}
	slices.Sort(ids)
	return ids
}

// without returns the decisions that concern none of the rules.
func without(decisions []*futurejobs.Decision, rules []int32) []*futurejobs.Decision {
	return slices.DeleteFunc(slices.Clone(decisions), func(d *futurejobs.Decision) bool { return slices.Contains(rules, d.Job.RuleID) })
}
