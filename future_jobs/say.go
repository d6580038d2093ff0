package futurejobs

import (
	"slices"
	"time"

	"deadman/alerts"
)

// alertsOf makes alerts of drafts: what a handler cannot know is filled in. check is the number
// of the check that decided (0: an event did), slot the slot it looked at, and planned when the
// alerts were to be raised.
func (r *Rule) alertsOf(j *Job, check int, slot, planned, now time.Time, drafts []alerts.Draft) []alerts.Alert {
	if len(drafts) == 0 {
		return nil
	}
	said := make([]alerts.Alert, 0, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		id, known := r.alertID(j, r.decision(j, check, d.Status, d.StepIndex, i, planned))
		if known {
			continue
		}
		said = append(said, alerts.Alert{
			ID:   id,
			Rule: r.Name, RuleVersion: int(r.Version), Entity: r.Entity, Key: j.Key,
			DecidedAt: now, Shard: j.Shard, RuleID: r.ID,
			Detail: alerts.Detail{
				Draft: *d, Since: j.Since, Slot: slot, CheckCount: j.CheckCount,
				Event: j.Event, State: j.State,
			},
		})
	}
	return said
}

// alertID is the id of the alert of a decision about a job. The alerts of a job sort in the order in
// which they are decided. known: the job has the alert already, from the stream, because the database
// that raised it was lost.
func (r *Rule) alertID(j *Job, d alerts.Decision) (id alerts.ID, known bool) {
	id = d.ID()
	if j.Origin == 0 || len(j.Alerts) == 0 {
		return id, false
	}
	if slices.Contains(j.Alerts, id) {
		return id, true
	}
	if last := alerts.TimeOf(j.Alerts[len(j.Alerts)-1]); !d.At.After(last) {
		d.At = last.Add(time.Millisecond)
		id = d.ID()
	}
	return id, false
}

// decision is what the id of an alert about a job is made of.
func (r *Rule) decision(j *Job, check int, status alerts.Status, step, place int, at time.Time) alerts.Decision {
	return alerts.Decision{
		Origin: j.Origin, RuleID: r.ID, Rule: r.Name, Key: j.Key, JobID: j.ID, CreatedAt: j.CreatedAt,
		Check: check, Status: status, StepIndex: step, Place: place, At: at,
	}
}

// planned is when an alert was to be raised that a check of a slot decides: the same instant when
// the job is created again, later, by its event. due is when the step was due that the check takes;
// zero: it takes none, or does not know.
//
//  1. A step is taken at the slot after it is due, unless a person put it off. It is never due before
//     the event: a wait may have begun long before its event came.
//  2. A job that was created after its first slot is checked at the slot after that. Its first slot is
//     the one that was planned.
//  3. Any other slot was planned.
func (r *Rule) planned(j *Job, slot, due time.Time) time.Time {
	if j.Origin == 0 {
		return slot
	}
	at := slot
	switch {
	case !due.IsZero():
		at = r.Grid.Up(due)
		if at.Before(j.AckedUntil) || at.Before(j.SnoozedUntil) {
			at = slot
		}
	case !j.FirstCheckAt.After(j.CreatedAt) && slot.Equal(r.Grid.After(j.CreatedAt)):
		at = j.FirstCheckAt
	}
	if began := j.Origin.At(); at.Before(began) {
		at = r.Grid.Up(began)
	}
	return at
}
