package futurejobs

import (
	"cmp"
	"fmt"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// CatchUp says what becomes of a job that is found later than After behind its slot.
type CatchUp struct {
	After time.Duration // 0: however late
	Do    LateAction
}

// LateAction is what is done with a job that is found late.
type LateAction uint8

// What is done with it.
const (
	Run    LateAction = iota // it is looked at all the same
	Skip                     // it is looked at a slot later
	Expire                   // it ends, and that is said
)

// defaultStreamTimeout is how long a job of a rule without catch_up.after waits for its streams.
const defaultStreamTimeout = time.Hour

// streamTimeout is how long a job waits for its streams.
func (r *Rule) streamTimeout() time.Duration { return cmp.Or(r.CatchUp.After, defaultStreamTimeout) }

// streamTimedOut decides on a job whose stream could not be read for too long: whether it happened is
// not known.
func (r *Rule) streamTimedOut(d *Decision, stream string, now time.Time) {
	j := &d.Job
	if !r.Limits.Spent(j.Undecided) {
		j.Undecided = max(r.Limits.Attempts, 1) - 1 // it was waited for long enough
	}
	slot := j.NextCheckAt
	j.Last.FailedAt = now
	r.undetermined(d, &checks.Outage{
		Source: StreamSource(stream), Err: fmt.Errorf("it is not read past %s yet", slot.UTC().Format(time.RFC3339)),
	}, slot, now)
	d.addTrail(slot, now, checks.Answer{})
}

// skipIfLate decides on a job whose handler is not to be asked, and reports whether it is one.
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
		Status: alerts.Expired, Severity: r.Loudest, StepIndex: j.Step, Labels: r.labels(*j),
		Text: r.Entity + " " + j.Key + ": nobody looked in time: " + reason,
	}})
	return true
}
