package futurejobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// decide turns the answer of a handler into a decision; d.Job is the job as read. now is the database's time, not
// before the slot that was checked.
//
//  1. A failure makes the check undetermined, for any cause. An answer that only holds a step back
//     is not counted.
//  2. An answer without a next time ends the job, with the handler's outcome.
//  3. A next time that a guard forbids ends the job, with an alert.
//  4. Any other next time is rounded up to a slot after now.
func (r *Rule) decide(d *Decision, look CheckTimes, answer checks.Answer, failure error, now time.Time) {
	slot := d.Job.NextCheckAt
	d.Job.Last = look
	d.Job.CheckStats = d.Job.CheckStats.add(look.Duration())
	if failure != nil {
		r.undetermined(d, failure, slot, now)
	} else {
		r.determined(d, answer, slot, now)
		d.mergeState(answer.State)
	}
	d.addTrail(slot, now, answer)
}

// determined handles a check with an answer: steps 2 to 4.
func (r *Rule) determined(d *Decision, answer checks.Answer, slot, now time.Time) {
	j := &d.Job
	j.Undecided = 0
	if !answer.Held {
		j.CheckCount++
	}
	j.Step = answer.Step
	if answer.Next.IsZero() {
		r.end(d, cmp.Or(answer.Outcome, checks.Cleared), "", slot, answer.Due, now, answer.Alerts)
		return
	}

	limits := r.Limits
	if answer.Nominal {
		limits.Horizon = 0
	}
	if breach := limits.Judge(slot, answer.Next, j.CheckCount); breach != guards.None {
		reason := limits.Explain(breach, slot, answer.Next)
		r.end(d, checks.Outcome(breach), reason, slot, answer.Due, now, append(answer.Alerts, r.gaveUp(j, reason)))
		return
	}
	j.NextCheckAt = r.Grid.Up(answer.Next)
	if !j.NextCheckAt.After(now) {
		j.NextCheckAt = r.Grid.After(now)
	}
	r.end(d, "", "", slot, answer.Due, now, answer.Alerts)
}

// undetermined schedules another check. Once the attempts are used up it raises an alert, one until a check is
// decided again, and ends the job if the rule says so. Otherwise checks become rarer, as another attempt a second
// later would hardly succeed. During an outage, the alert of the outage covers all its jobs while it is open. A job
// that is undetermined for another reason afterwards raises its own alert.
func (r *Rule) undetermined(d *Decision, failure error, slot, now time.Time) {
	j := &d.Job
	before := j.Undecided > 0 && r.attemptsExhausted(j.Undecided)
	j.Undecided++
	spent := r.attemptsExhausted(j.Undecided)
	j.NextCheckAt = r.retries(spent).After(now.Add(r.retryDelay(j)))
	reason := clip(failure.Error())
	var outage *checks.Outage
	out := errors.As(failure, &outage)

	if spent && (r.Limits.End || errors.Is(failure, errAlreadyStarted)) {
		var said []alerts.Draft
		if !out {
			said = []alerts.Draft{r.gaveUp(j, reason)}
		}
		r.end(d, outcomeOf(failure), reason, slot, time.Time{}, now, said)
		d.byOutage(outage)
		return
	}
	if !spent || before && !out && (isSpokenFor(failure) || r.said(j)) {
		r.end(d, "", reason, slot, time.Time{}, now, nil)
		return
	}
	if out {
		r.end(d, "", reason, slot, time.Time{}, now, nil)
		d.byOutage(outage)
		d.Repeated = before
		return
	}
	r.end(d, "", reason, slot, time.Time{}, now, []alerts.Draft{{
		Status: alerts.Undetermined, Severity: r.MaxSeverity, StepIndex: j.Step, Labels: r.labels(*j),
		Text: r.Entity + " " + j.Key + ": could not find out: " + reason,
	}})
}

// said reports whether one of the last undetermined checks of j raised an alert itself.
func (r *Rule) said(j *Job) bool {
	for check := j.Checks - j.Undecided; check <= j.Checks; check++ {
		d := r.decision(j, check, alerts.Undetermined, j.Step, 0, time.Time{})
		before := d // raised by a node of the previous version, without origins
		before.Origin = 0
		if slices.ContainsFunc(j.Alerts, d.Matches) || slices.ContainsFunc(j.Alerts, before.Matches) {
			return true
		}
	}
	return false
}

// outcomeOf returns the outcome of a job that ends undetermined.
func outcomeOf(failure error) checks.Outcome {
	var outage *checks.Outage
	if errors.Is(failure, context.DeadlineExceeded) && !errors.As(failure, &outage) {
		return checks.GuardTimeout
	}
	return checks.Undetermined
}

// byOutage records that the alert of an outage covers the job.
func (d *Decision) byOutage(o *checks.Outage) {
	if o != nil {
		d.Outage = o.Source
	}
}

// attemptsExhausted reports whether the number of undetermined checks in a row exceeds the attempts. A check with
// side effects is not retried.
func (r *Rule) attemptsExhausted(undecided int) bool {
	return isAtMostOnce(r) || r.Limits.Spent(undecided)
}

// second is the finest grid.
const second = Grid(time.Second)

// retries returns the grid for the next check of an undetermined job. While attempts are left, the retry is soon
// after a hiccup and does not wait for the next slot; an inline handler would fail the same way until then.
func (r *Rule) retries(spent bool) Grid {
	if spent || r.Finder == nil && isInline(r) {
		return r.Grid
	}
	return min(r.Grid, second)
}

// maxRetryDelay is the longest time between two undetermined checks, unless slots are further apart.
const maxRetryDelay = 5 * time.Minute

// retryDelay returns how long to wait, before rounding to a slot, after the undetermined checks in a row of j: the
// rule's interval, doubled each time, while attempts are left; then one slot, two, four and so on.
func (r *Rule) retryDelay(j *Job) time.Duration {
	over := j.Undecided - max(r.Limits.Attempts, 1)
	if over <= 0 {
		return min(r.Limits.Interval<<min(j.Undecided-1, 16), Day) + time.Duration(float64(r.Limits.Jitter)*chance(j))
	}
	return min(time.Duration(r.Grid)<<min(over-1, 9), maxRetryDelay)
}

// chance returns a number from 0 to 1 that differs for each job and attempt, and is the same on every node.
func chance(j *Job) float64 {
	return float64(mix(uint64(j.ID)*31+uint64(j.Undecided))>>11) / (1 << 53)
}

// reasonMost is how much of an error, in bytes, is stored in history and alerts.
const reasonMost = 1000

// clip shortens the text of an external error.
func clip(text string) string {
	if len(text) <= reasonMost {
		return text
	}
	return strings.ToValidUTF8(text[:reasonMost], "") + "…"
}

// gaveUp drafts the alert that a job has ended without an answer.
func (r *Rule) gaveUp(j *Job, reason string) alerts.Draft {
	return alerts.Draft{
		Status: alerts.GaveUp, Severity: r.MaxSeverity, StepIndex: j.Step, Labels: r.labels(*j),
		Text: r.Entity + " " + j.Key + ": gave up looking: " + reason,
	}
}

// end completes a decision and adds its alerts to the job. A resolved alert closes all earlier alerts. due is when
// the step taken by the check was due; zero: none was taken, or unknown.
func (r *Rule) end(d *Decision, outcome checks.Outcome, reason string, slot, due, now time.Time, drafts []alerts.Draft) {
	j := &d.Job
	before := j.Alerts
	d.Outcome, d.Reason, d.Alerts = outcome, reason, nil
	if len(drafts) == 0 {
		return
	}
	d.Alerts = r.alertsOf(j, j.Checks, slot, r.planned(j, slot, due), now, drafts)
	j.Alerts = before[:len(before):len(before)]
	for i := range d.Alerts {
		said := &d.Alerts[i]
		if said.Status == alerts.Resolved {
			said.Closes = before
		}
		j.Alerts = append(j.Alerts, said.ID)
	}
}

// mergeState sets the state of the alerts to the state at the decision; nil: the job's state.
func (d *Decision) mergeState(state json.RawMessage) {
	if state == nil {
		return
	}
	for i := range d.Alerts {
		d.Alerts[i].State = state
	}
}

// alertsOf turns drafts into alerts and fills in the fields that a handler does not know. check is the number of the
// check that decided (0: an event did), slot is the checked slot, and planned the time at which the alerts were to be
// raised.
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

// alertID returns the id of an alert. The alerts of a job sort in the order of their decisions. known reports that
// the job has the alert already, from the stream, because the database that raised it was lost.
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

// decision returns the parts of an alert's id.
func (r *Rule) decision(j *Job, check int, status alerts.Status, step, place int, at time.Time) alerts.Decision {
	return alerts.Decision{
		Origin: j.Origin, RuleID: r.ID, Rule: r.Name, Key: j.Key, JobID: j.ID, CreatedAt: j.CreatedAt,
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
