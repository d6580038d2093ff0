package futurejobs

import (
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// task is a job on its way through the sweep, from its read to its settlement, with the held shard and the revision
// of the rule set that the decision is based on.
type task struct {
	shard     *Shard
	rule      *Rule
	ruleSet   int64
	slot      time.Time // the slot being checked
	receiving time.Time // start of the gap-free period of the rule's heartbeats; zero: no gap matters
	through   time.Time // all streams that can change the job were read up to this time before the job was read; zero: no such stream
	Decision
	lookupEnd      time.Time // the end of the lookup, which began with the check; zero: the check has none
	handlerSkipped bool      // the job was decided without a call of its handler

	isGivenUp bool // the database refused the decision, and this one replaces it
	isSlow    bool // an earlier decision about this job exceeded the transaction time on its own
}

// checkRequest returns the check that is passed to the handler at the time now.
func (v *task) checkRequest(now time.Time) checks.Check {
	c := v.rule.checkOf(&v.Job, now)
	c.ReceivingSince, c.ReadThrough = v.receiving, v.through
	return c
}

// needsLookup reports whether the check needs a lookup in a source.
func (v *task) needsLookup() bool { return !v.handlerSkipped && v.rule.Finder != nil }

// dueAfter returns the job's next due time after its decision was settled, or was not; zero: never.
func (v *task) dueAfter(settled bool) time.Time {
	switch {
	case !settled:
		return v.slot
	case v.Ends():
		return time.Time{}
	}
	return v.Job.NextCheckAt
}

// result names the outcome of the check: that of the job, or what else came of it.
func (v *task) result() string {
	switch {
	case v.Outcome != "":
		return string(v.Outcome)
	case !v.Job.Last.FailedAt.IsZero():
		return "undetermined"
	case v.handlerSkipped:
		return "skipped"
	}
	return "waiting"
}

// waitsForIO reports whether the check waits for a source or for a handler that does I/O.
func (v *task) waitsForIO() bool {
	return !v.handlerSkipped && (v.rule.Finder != nil || !isInline(v.rule))
}

// giveUp replaces a decision that the database refuses by the end of its job, with an alert. The alert contains
// nothing of the job but its key: any other part may be the refused one.
func (v *task) giveUp(refused error, now time.Time) {
	j := v.Job
	j.Alerts = j.Alerts[:max(len(j.Alerts)-len(v.Alerts), 0)]
	j.Event, j.State, j.Trail, j.UndeterminedChecks = nil, nil, "", 0
	d := Decision{Job: j}
	reason := clip("the decision cannot be stored: " + refused.Error())
	draft := jobAlerts{v.rule, &j}.gaveUp(reason)
	draft.Labels = nil
	d.complete(v.rule, checks.Undetermined, reason, v.slot, time.Time{}, now, []alerts.Draft{draft})
	v.Decision, v.isGivenUp = d, true
}

// takesTurn reports whether the check waits for a turn of its tenant.
func (v *task) takesTurn() bool {
	return !v.handlerSkipped && v.rule.Allowance != nil && v.rule.Finder == nil && isInline(v.rule)
}
