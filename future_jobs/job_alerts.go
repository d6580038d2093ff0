package futurejobs

import (
	"slices"
	"time"

	"deadman/alerts"
)

// jobAlerts builds the alerts of a job.
type jobAlerts struct {
	rule *Rule
	job  *Job
}

// of turns drafts into alerts and fills in the fields that a handler does not know. check is the number of the
// check that decided (0: an event did), slot is the checked slot, and planned the time at which the alerts were to be
// raised.
func (a jobAlerts) of(check int, slot, planned, now time.Time, drafts []alerts.Draft) []alerts.Alert {
	if len(drafts) == 0 {
		return nil
	}
	raised := make([]alerts.Alert, 0, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		id, known := a.id(a.decision(check, d.Status, d.StepIndex, i, planned))
		if known {
			continue
		}
		raised = append(raised, alerts.Alert{
			ID:   id,
			Rule: a.rule.Name, RuleVersion: int(a.rule.Version), Entity: a.rule.Entity, Key: a.job.Key,
			DecidedAt: now, Shard: a.job.Shard, RuleID: a.rule.ID, Trace: a.job.Order.trace(),
			Detail: alerts.Detail{
				Draft: *d, Since: a.job.Since, Slot: slot, CheckCount: a.job.CheckCount,
				Event: a.job.Event, State: a.job.State,
			},
		})
	}
	return raised
}

// id returns the id of an alert. The alerts of a job sort in the order of their decisions. known reports that
// the job has the alert already, from the stream, because the database that raised it was lost.
func (a jobAlerts) id(d alerts.Decision) (id alerts.ID, known bool) {
	id = d.ID()
	if a.job.Origin == 0 || len(a.job.Alerts) == 0 {
		return id, false
	}
	if slices.Contains(a.job.Alerts, id) {
		return id, true
	}
	if last := alerts.TimeOf(a.job.Alerts[len(a.job.Alerts)-1]); !d.At.After(last) {
		d.At = last.Add(time.Millisecond)
		id = d.ID()
	}
	return id, false
}

// decision returns the parts of an alert's id.
func (a jobAlerts) decision(check int, status alerts.Status, step, place int, at time.Time) alerts.Decision {
	return alerts.Decision{
		Origin: a.job.Origin, RuleID: a.rule.ID, Rule: a.rule.Name, Key: a.job.Key, JobID: a.job.ID, CreatedAt: a.job.CreatedAt,
		Check: check, Status: status, StepIndex: step, Place: place, At: at,
	}
}

// planned returns when an alert, raised by the check of a slot, was to be raised: the same time if the job is created
// again, later, by its event. due is when the step taken by the check was due; zero: none was taken, or unknown.
//
//  1. A step is taken at the slot after its due time, unless a person delayed it. It is never due before
//     the event: a job's Since may be long before its event.
//  2. A job that was created after its first slot is checked at the slot after its creation. The planned
//     time is its first slot.
//  3. Any other slot was planned.
func (a jobAlerts) planned(slot, due time.Time) time.Time {
	if a.job.Origin == 0 {
		return slot
	}
	at := slot
	switch {
	case !due.IsZero():
		at = a.rule.Grid.Up(due)
		if at.Before(a.job.AckedUntil) || at.Before(a.job.SnoozedUntil) {
			at = slot
		}
	case !a.job.FirstCheckAt.After(a.job.CreatedAt) && slot.Equal(a.rule.Grid.After(a.job.CreatedAt)):
		at = a.job.FirstCheckAt
	}
	if startedAt := a.job.Origin.At(); at.Before(startedAt) {
		at = a.rule.Grid.Up(startedAt)
	}
	return at
}

// hasUndetermined reports whether one of the last undetermined checks raised an alert itself.
func (a jobAlerts) hasUndetermined() bool {
	for check := a.job.CheckAttempts - a.job.UndeterminedChecks; check <= a.job.CheckAttempts; check++ {
		d := a.decision(check, alerts.Undetermined, a.job.Step, 0, time.Time{})
		before := d // raised by a node of the previous version, without origins
		before.Origin = 0
		if slices.ContainsFunc(a.job.Alerts, d.Matches) || slices.ContainsFunc(a.job.Alerts, before.Matches) {
			return true
		}
	}
	return false
}

// draft drafts an alert about the check of the job, not about its entity.
func (a jobAlerts) draft(status alerts.Status, text string) alerts.Draft {
	return alerts.Draft{
		Status: status, Severity: a.rule.MaxSeverity, StepIndex: a.job.Step, Labels: a.rule.labels(*a.job),
		Text: a.rule.Entity + " " + a.job.Key + ": " + text,
	}
}

// gaveUp drafts the alert that the job has ended without an answer.
func (a jobAlerts) gaveUp(reason string) alerts.Draft {
	return a.draft(alerts.GaveUp, "gave up: "+reason)
}
