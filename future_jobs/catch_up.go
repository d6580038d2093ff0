package futurejobs

import (
	"cmp"
	"fmt"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// CatchUp configures jobs that are checked later than After behind their slot.
type CatchUp struct {
	After time.Duration // 0: no limit
	Do    LateAction
}

// LateAction is the treatment of a late job.
type LateAction uint8

// The treatments of late jobs.
const (
	Run    LateAction = iota // check it nevertheless
	Skip                     // check it a slot later
	Expire                   // end it with an alert
)

// defaultStreamTimeout is how long a job waits for its streams, for rules without catch_up.after.
const defaultStreamTimeout = time.Hour

// streamTimeout returns how long a job waits for its streams.
func (r *Rule) streamTimeout() time.Duration { return cmp.Or(r.CatchUp.After, defaultStreamTimeout) }

// streamTimedOut decides a job with a stream that could not be read for too long: its check is undetermined.
func (r *Rule) streamTimedOut(d *Decision, stream string, now time.Time) {
	j := &d.Job
	if !r.Limits.Spent(j.Undecided) {
		j.Undecided = max(r.Limits.Attempts, 1) - 1 // it has waited long enough
	}
	slot := j.NextCheckAt
	j.Last.FailedAt = now
	r.undetermined(d, &checks.Outage{
		Source: StreamSource(stream), Err: fmt.Errorf("it is not read past %s yet", slot.UTC().Format(time.RFC3339)),
	}, slot, now)
	d.addTrail(slot, now, checks.Answer{})
}

// skipIfLate decides a job that needs no check, because it is late or its rule is deleted, and reports whether it
// did.
func (r *Rule) skipIfLate(d *Decision, now time.Time) bool {
	j := &d.Job
	slot := j.NextCheckAt
	late := now.Sub(slot)
	switch {
	case r.Deleted:
		d.Outcome = checks.RuleDeleted
		return true
	case r.CatchUp.After == 0 || late <= r.CatchUp.After || r.CatchUp.Do == Run:
		return false
	}
	reason := fmt.Sprintf("found %s after its slot, more than catch_up.after, %s", spell(late.Truncate(time.Second)), spell(r.CatchUp.After))
	if r.CatchUp.Do == Skip {
		j.NextCheckAt = r.Grid.After(now)
		d.Reason = reason
		d.addTrail(slot, now, checks.Answer{})
		return true
	}
	r.end(d, checks.Expired, reason, slot, time.Time{}, now, []alerts.Draft{{
		Status: alerts.Expired, Severity: r.MaxSeverity, StepIndex: j.Step, Labels: r.labels(*j),
		Text: r.Entity + " " + j.Key + ": nobody looked in time: " + reason,
	}})
	return true
}
