package futurejobs

import (
	"time"

	"deadman/alerts"
)

// say makes alerts of drafts: what a handler cannot know is filled in. check is the number
// of the check that decided (0: an event did) and slot the slot it looked at.
func (r *Rule) say(j *Job, check int, slot, now time.Time, drafts []alerts.Draft) []alerts.Alert {
	if len(drafts) == 0 {
		return nil
	}
	said := make([]alerts.Alert, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		said[i] = alerts.Alert{
			ID: alerts.Decision{
				JobID: j.ID, CreatedAt: j.CreatedAt, Check: check, Status: d.Status,
				StepIndex: d.StepIndex, Place: i, At: slot,
			}.ID(),
			Rule: r.Name, RuleVersion: int(r.Version), Entity: r.Entity, Key: j.Key,
			DecidedAt: now, Shard: j.Shard, RuleID: r.ID,
			Detail: alerts.Detail{
				Draft: *d, Since: j.Since, Slot: slot, CheckCount: j.CheckCount,
				Event: j.Event, State: j.State,
			},
		}
	}
	return said
}
