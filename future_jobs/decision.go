package futurejobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// Decision is the result of a check: the job continues with new times, or it ends with an outcome.
type Decision struct {
	Job      Job            // the job after the decision; Shard, ID and Rev as read
	Outcome  checks.Outcome // empty: the job continues
	Reason   string         // explains the outcome to people
	Alerts   []alerts.Alert
	Outage   string // the source or stream in outage that used up the attempts
	Repeated bool   // they were used up before
}

// Ends reports whether the job moves to history.
func (d Decision) Ends() bool { return d.Outcome != "" }

// decide turns the answer of a handler into a decision; d.Job is the job as read. now is the database's time, not
// before the slot that was checked.
//
//  1. A failure makes the check undetermined, for any cause. An answer that only holds a step back
//     is not counted.
//  2. An answer without a next time ends the job, with the handler's outcome.
//  3. A next time that a guard forbids ends the job, with an alert.
//  4. Any other next time is rounded up to a slot after now.
func (d *Decision) decide(r *Rule, times CheckTimes, answer checks.Answer, failure error, now time.Time) {
	slot := d.Job.NextCheckAt
	d.Job.Last = times
	d.Job.CheckStats = d.Job.CheckStats.add(times.Duration())
	if failure != nil {
		d.undetermined(r, failure, slot, now)
	} else {
		d.determined(r, answer, slot, now)
		d.mergeState(answer.State)
	}
	d.addTrail(slot, now, answer)
}

// determined handles a check with an answer: steps 2 to 4.
func (d *Decision) determined(r *Rule, answer checks.Answer, slot, now time.Time) {
	j := &d.Job
	j.UndeterminedChecks = 0
	if !answer.Held {
		j.CheckCount++
	}
	j.Step = answer.Step
	if answer.Next.IsZero() {
		d.complete(r, cmp.Or(answer.Outcome, checks.Cleared), "", slot, answer.Due, now, answer.Alerts)
		return
	}

	if breach, reason := r.judge(answer, slot, j.CheckCount); breach != guards.None {
		d.complete(r, checks.Outcome(breach), reason, slot, answer.Due, now, append(answer.Alerts, jobAlerts{r, j}.gaveUp(reason)))
		return
	}
	j.NextCheckAt = r.Grid.Up(answer.Next)
	if !j.NextCheckAt.After(now) {
		j.NextCheckAt = r.Grid.After(now)
	}
	d.complete(r, "", "", slot, answer.Due, now, answer.Alerts)
}

// undetermined schedules another check. Once the attempts are used up it raises an alert, one until a check is
// decided again, and ends the job if the rule says so. Otherwise checks become rarer, as another attempt a second
// later would hardly succeed. During an outage, the alert of the outage covers all its jobs while it is open. A job
// that is undetermined for another reason afterwards raises its own alert.
func (d *Decision) undetermined(r *Rule, failure error, slot, now time.Time) {
	j := &d.Job
	before := j.UndeterminedChecks > 0 && r.attemptsExhausted(j.UndeterminedChecks)
	j.UndeterminedChecks++
	spent := r.attemptsExhausted(j.UndeterminedChecks)
	j.NextCheckAt = r.retryAt(j, spent, now)
	reason := clip(failure.Error())
	var outage *checks.Outage
	out := errors.As(failure, &outage)

	if spent && (r.Limits.End || errors.Is(failure, errAlreadyStarted)) {
		var drafts []alerts.Draft
		if !out {
			drafts = []alerts.Draft{jobAlerts{r, j}.gaveUp(reason)}
		}
		d.complete(r, outcomeOf(failure), reason, slot, time.Time{}, now, drafts)
		d.setOutage(outage)
		return
	}
	if !spent || before && !out && (isCoveredByOutage(failure) || jobAlerts{r, j}.hasUndetermined()) {
		d.complete(r, "", reason, slot, time.Time{}, now, nil)
		return
	}
	if out {
		d.complete(r, "", reason, slot, time.Time{}, now, nil)
		d.setOutage(outage)
		d.Repeated = before
		return
	}
	d.complete(r, "", reason, slot, time.Time{}, now, []alerts.Draft{jobAlerts{r, j}.draft(alerts.Undetermined, "check undetermined: "+reason)})
}

// outcomeOf returns the outcome of a job that ends undetermined.
func outcomeOf(failure error) checks.Outcome {
	var outage *checks.Outage
	if errors.Is(failure, context.DeadlineExceeded) && !errors.As(failure, &outage) {
		return checks.Outcome(guards.Timeout)
	}
	return checks.Undetermined
}

// setOutage records that the alert of an outage covers the job.
func (d *Decision) setOutage(o *checks.Outage) {
	if o != nil {
		d.Outage = o.Source
	}
}

// decideLateOrDeleted decides a job that needs no check, because it is late or its rule is deleted, and reports whether it
// did.
func (d *Decision) decideLateOrDeleted(r *Rule, now time.Time) bool {
	if r.Deleted {
		d.Outcome = checks.RuleDeleted
		return true
	}
	j := &d.Job
	slot := j.NextCheckAt
	reason := r.CatchUp.exceeded(now.Sub(slot))
	if reason == "" {
		return false
	}
	if r.CatchUp.Do == Skip {
		j.NextCheckAt = r.Grid.After(now)
		d.Reason = reason
		d.addTrail(slot, now, checks.Answer{})
		return true
	}
	d.complete(r, checks.Expired, reason, slot, time.Time{}, now, []alerts.Draft{
		jobAlerts{r, j}.draft(alerts.Expired, "checked too late: "+reason),
	})
	return true
}

// streamTimedOut decides a job with a stream that could not be read for too long: its check is undetermined.
func (d *Decision) streamTimedOut(r *Rule, stream string, now time.Time) {
	j := &d.Job
	if !r.Limits.Spent(j.UndeterminedChecks) {
		j.UndeterminedChecks = max(r.Limits.Attempts, 1) - 1 // it has waited long enough
	}
	slot := j.NextCheckAt
	j.Last.FailedAt = now
	d.undetermined(r, &checks.Outage{
		Source: StreamSource(stream), Err: fmt.Errorf("it is not read past %s yet", slot.UTC().Format(time.RFC3339)),
	}, slot, now)
	d.addTrail(slot, now, checks.Answer{})
}

// complete completes a decision and adds its alerts to the job. A resolved alert closes all earlier alerts. due is when
// the step taken by the check was due; zero: none was taken, or unknown.
func (d *Decision) complete(r *Rule, outcome checks.Outcome, reason string, slot, due, now time.Time, drafts []alerts.Draft) {
	j := &d.Job
	before := j.Alerts
	d.Outcome, d.Reason, d.Alerts = outcome, reason, nil
	if len(drafts) == 0 {
		return
	}
	of := jobAlerts{r, j}
	d.Alerts = of.of(j.CheckAttempts, slot, of.planned(slot, due), now, drafts)
	j.Alerts = before[:len(before):len(before)]
	for i := range d.Alerts {
		alert := &d.Alerts[i]
		if alert.Status == alerts.Resolved {
			alert.Closes = before
		}
		j.Alerts = append(j.Alerts, alert.ID)
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

// resolveAlerts adds the alert that resolves the open ones. at is when that was decided.
func (d *Decision) resolveAlerts(rule *Rule, draft alerts.Draft, at, now time.Time) {
	planned := now
	if d.Job.Origin != 0 {
		planned = at
	}
	raised := jobAlerts{rule, &d.Job}.of(0, planned, planned, afterCheck(d.Job.Last, now), []alerts.Draft{draft})
	if len(raised) == 0 {
		return // the job has the alert already
	}
	before := d.Job.Alerts
	raised[0].Closes = before
	d.Alerts = raised
	d.Job.Alerts = append(before[:len(before):len(before)], raised[0].ID)
}

// checkAhead bounds how long after the start of an event's transaction a check may end while the transaction waits
// for it.
const checkAhead = 10 * time.Second

// afterCheck returns now, or the instant after the job's last check if that ended later: the event's transaction
// began before the check ended, and waited for its settlement. Alerts are republished in the order of their
// decisions. A check that ended later than checkAhead was dated by a clock that has been set back since.
func afterCheck(last CheckTimes, now time.Time) time.Time {
	end := last.EndedAt()
	if end.Before(now) || end.Sub(now) > checkAhead {
		return now
	}
	return end.Add(time.Microsecond)
}

// addTrail records a check in the trail of its job. The end of a job is in its history, and an alert has its own
// record: a check that ends the job adds no entry, unless the values read by the condition would be lost, or a
// suppressed step.
func (d *Decision) addTrail(slot, now time.Time, answer checks.Answer) {
	d.Job.Trail = ""
	if d.Ends() && !answer.Held && (answer.Values == "" || len(d.Alerts) > 0) {
		return
	}
	e := Entry{
		Kind: Checked, At: slot, Lateness: max(now.Sub(slot), 0), Values: answer.Values, Step: answer.HeldStep, Held: answer.Held, Outcome: d.Outcome,
	}
	if !d.Ends() {
		e.Next, e.Reason = d.Job.NextCheckAt, d.Reason
	}
	for _, a := range d.Alerts {
		if a.Status == alerts.Firing {
			e.Step = a.Step
		}
	}
	d.Job.Trail = e.Trail()
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
