package futurejobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// inlineHandler is an inline handler.
type inlineHandler struct{ checks.Handler }

func (inlineHandler) Inline() {}

// waitingHandler is an asynchronous handler.
var waitingHandler = checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) { return checks.Answer{}, nil })

// alertedJob returns a job with undetermined checks in a row, one of them with an alert.
func alertedJob(at, undecided int) Job {
	d := alerts.Decision{JobID: 1, CreatedAt: noon.Add(-time.Hour), Check: at, Status: alerts.Undetermined, At: noon.Add(-time.Minute)}
	return Job{UndeterminedChecks: undecided, CheckStats: CheckStats{CheckAttempts: undecided}, Alerts: []alerts.ID{d.ID()}}
}

// decideJob returns the decision about a job.
func decideJob(r *Rule, j Job, times CheckTimes, answer checks.Answer, failure error, now time.Time) Decision {
	d := Decision{Job: j}
	d.decide(r, times, answer, failure, now)
	return d
}

func TestDecide(t *testing.T) {
	slot := noon
	in := func(d time.Duration) checks.Answer { return checks.Answer{Next: slot.Add(d), Step: 1} }
	failed := errors.New("no route to the warehouse")
	for _, c := range []struct {
		name     string
		limits   guards.Limits
		job      Job
		answer   checks.Answer
		err      error
		late     time.Duration // time of the decision after the slot
		outcome  checks.Outcome
		next     time.Duration // after the slot; for jobs that continue
		statuses []alerts.Status
		handler  checks.Handler // nil: an inline one
		outage   string
	}{
		{name: "goes on at a slot", answer: in(90 * time.Second), next: 2 * time.Minute},
		{name: "ends for the handler's reason", answer: checks.Answer{Outcome: checks.Exhausted}, outcome: checks.Exhausted},
		{name: "ends without a reason", answer: checks.Answer{}, outcome: checks.Cleared},
		{name: "between slot and now is the next slot", answer: in(time.Minute), late: 5 * time.Minute, next: 6 * time.Minute},
		{name: "past", answer: in(0), outcome: checks.Outcome(guards.Past), statuses: []alerts.Status{alerts.GaveUp}},
		{
			name: "horizon", limits: guards.Limits{Horizon: time.Hour}, answer: in(time.Hour + time.Second),
			outcome: checks.Outcome(guards.Horizon), statuses: []alerts.Status{alerts.GaveUp},
		},
		{
			name: "the horizon does not bound the rule's own steps", limits: guards.Limits{Horizon: time.Hour},
			answer: checks.Answer{Next: slot.Add(2 * time.Hour), Nominal: true}, next: 2 * time.Hour,
		},
		{
			name: "max checks keeps the alerts of the handler", limits: guards.Limits{MaxChecks: 3}, job: Job{CheckCount: 2},
			answer:  checks.Answer{Next: slot.Add(time.Minute), Alerts: []alerts.Draft{{Status: alerts.Firing}}},
			outcome: checks.Outcome(guards.MaxChecks), statuses: []alerts.Status{alerts.Firing, alerts.GaveUp},
		},
		{name: "max checks not reached", limits: guards.Limits{MaxChecks: 3}, job: Job{CheckCount: 1}, answer: in(time.Minute), next: time.Minute},
		{name: "undetermined is tried again", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 1}, err: failed, next: time.Minute},
		{
			name: "an undetermined job is alerted when its attempts are spent", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 2},
			err: failed, next: time.Minute, statuses: []alerts.Status{alerts.Undetermined},
		},
		{name: "undetermined is alerted once, and then checked less often", limits: guards.Limits{Attempts: 3}, job: alertedJob(3, 3), err: failed, next: time.Minute},
		{name: "undetermined checks become rarer", limits: guards.Limits{Attempts: 3}, job: alertedJob(3, 4), err: failed, next: 2 * time.Minute},
		{name: "but never rarer than that", limits: guards.Limits{Attempts: 3}, job: alertedJob(3, 1000), err: failed, next: 5 * time.Minute},
		{
			name: "undetermined ends where the rule says so", limits: guards.Limits{Attempts: 1, End: true},
			err: failed, outcome: checks.Undetermined, statuses: []alerts.Status{alerts.GaveUp},
		},
		{
			name: "a check with I/O is retried soon", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 1},
			err: failed, handler: waitingHandler, next: time.Second,
		},
		{
			name: "and at the next slot when the attempts are spent", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 2},
			err: failed, handler: waitingHandler, next: time.Minute, statuses: []alerts.Status{alerts.Undetermined},
		},
		{
			name: "an outage speaks for the job", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 2},
			err: &checks.Outage{Source: "shop", Err: failed}, next: time.Minute, outage: "shop",
		},
		{
			name: "the alert of an outage covers the job while its checks fail by it", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 3},
			err: &checks.Outage{Source: "shop", Err: failed}, next: time.Minute, outage: "shop",
		},
		{
			name: "an undetermined job is alerted after an outage", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 3, CheckStats: CheckStats{CheckAttempts: 3}},
			err: failed, next: time.Minute, statuses: []alerts.Status{alerts.Undetermined},
		},
		{
			name: "and not while the outage is open", limits: guards.Limits{Attempts: 3}, job: Job{UndeterminedChecks: 3, CheckStats: CheckStats{CheckAttempts: 3}},
			err: outageError{failed}, next: time.Minute,
		},
		{name: "once", limits: guards.Limits{Attempts: 3}, job: alertedJob(4, 6), err: failed, next: 5 * time.Minute},
		{name: "after a delay that counts from the slot", limits: guards.Limits{Attempts: 3}, job: alertedJob(4, 6), err: failed, late: 20 * time.Millisecond, next: 5 * time.Minute},
		{name: "of a late check, from the slot before it", limits: guards.Limits{Attempts: 3}, job: alertedJob(4, 4), err: failed, late: 90 * time.Second, next: 3 * time.Minute},
		{
			name: "an outage speaks for a job that it ends, and is no broken guard", limits: guards.Limits{Attempts: 1, End: true},
			err: &checks.Outage{Source: "shop", Err: context.DeadlineExceeded}, outcome: checks.Undetermined, outage: "shop",
		},
		{
			name: "a handler with side effects is not called again", limits: guards.Limits{Attempts: 3}, err: failed, handler: checks.WithAtMostOnce(waitingHandler),
			next: time.Minute, statuses: []alerts.Status{alerts.Undetermined},
		},
		{
			name: "and ends if the result of the first run is unknown", limits: guards.Limits{Attempts: 3}, err: errAlreadyStarted, handler: checks.WithAtMostOnce(waitingHandler),
			outcome: checks.Undetermined, statuses: []alerts.Status{alerts.GaveUp},
		},
		{
			name: "a timeout ends where the rule says so", limits: guards.Limits{Attempts: 2, End: true}, job: Job{UndeterminedChecks: 1},
			err: errAbandoned, outcome: checks.Outcome(guards.Timeout), statuses: []alerts.Status{alerts.GaveUp},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := orderRule()
			rule.Limits = c.limits
			if rule.Handler = c.handler; c.handler == nil {
				rule.Handler = inlineHandler{}
			}
			job := c.job
			job.ID, job.NextCheckAt, job.CreatedAt = 1, slot, noon.Add(-time.Hour)
			now := slot.Add(c.late)

			d := decideJob(rule, job, CheckTimes{StartedAt: now, CompletedAt: now}, c.answer, c.err, now)
			if d.Outcome != c.outcome {
				t.Fatalf("outcome %q, want %q (%s)", d.Outcome, c.outcome, d.Reason)
			}
			if !d.Ends() && !d.Job.NextCheckAt.Equal(slot.Add(c.next)) {
				t.Errorf("next check %s after the slot, want %s", d.Job.NextCheckAt.Sub(slot), c.next)
			}
			if d.Outage != c.outage {
				t.Errorf("outage %q, want %q", d.Outage, c.outage)
			}
			if d.Ends() && len(c.statuses) > 0 && d.Reason == "" {
				t.Error("it ends without a reason that a person could read")
			}
			var statuses []alerts.Status
			for i, a := range d.Alerts {
				statuses = append(statuses, a.Status)
				if d.Job.Alerts[len(job.Alerts)+i] != a.ID {
					t.Errorf("alert %d is not on the job", i)
				}
			}
			if len(statuses) != len(c.statuses) {
				t.Fatalf("alerts %v, want %v", statuses, c.statuses)
			}
			for i := range statuses {
				if statuses[i] != c.statuses[i] {
					t.Errorf("alerts %v, want %v", statuses, c.statuses)
				}
			}
			if counted := d.Job.CheckCount - job.CheckCount; (c.err == nil) != (counted == 1) {
				t.Errorf("%d decided checks counted, error %v", counted, c.err)
			}
		})
	}
}

func TestSameDecisionHasSameID(t *testing.T) {
	rule := orderRule()
	job := Job{ID: 9, CreatedAt: noon, NextCheckAt: noon}
	answer := checks.Answer{Alerts: []alerts.Draft{{Status: alerts.Firing, StepIndex: 1}}}
	once := decideJob(rule, job, CheckTimes{}, answer, nil, noon).Alerts[0].ID
	again := decideJob(rule, job, CheckTimes{}, answer, nil, noon.Add(time.Hour)).Alerts[0].ID
	if once != again {
		t.Errorf("decided again, the alert is %s and not %s", again, once)
	}
	job.CheckAttempts++
	if other := decideJob(rule, job, CheckTimes{}, answer, nil, noon).Alerts[0].ID; other == once {
		t.Error("another check's alert has the same id")
	}
}

func TestLongErrorIsClipped(t *testing.T) {
	rule := orderRule()
	rule.Limits = guards.Limits{Attempts: 1}
	d := decideJob(rule, Job{NextCheckAt: noon}, CheckTimes{}, checks.Answer{}, errors.New(strings.Repeat("ä", 1<<20)), noon)
	if n := len(d.Reason); n > reasonMost+len("…") || !utf8.ValidString(d.Reason) {
		t.Errorf("a reason of %d bytes, valid: %t", n, utf8.ValidString(d.Reason))
	}
	if n := len(d.Alerts[0].Text); n > 2*reasonMost {
		t.Errorf("a text of %d bytes", n)
	}
}

func TestHandlerTimeoutIsBounded(t *testing.T) {
	hang := make(chan struct{})
	stuck := checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
		<-hang
		return checks.Answer{}, nil
	})
	_, returned, err := callWithTimeout(t.Context(), time.Millisecond, stuck, checks.Check{})
	if !errors.Is(err, errAbandoned) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deaf handler: %v", err)
	}
	select {
	case <-returned:
		t.Error("a hanging handler is reported as returned")
	default:
	}
	close(hang)
	<-returned

	panics := checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) { panic("boom") })
	if _, _, err := callWithTimeout(t.Context(), time.Second, panics, checks.Check{}); err == nil {
		t.Error("a panic passes for an answer")
	}

	polite := checks.HandlerFunc(func(ctx context.Context, _ checks.Check) (checks.Answer, error) {
		<-ctx.Done()
		return checks.Answer{}, ctx.Err()
	})
	if _, _, err := callWithTimeout(t.Context(), time.Millisecond, polite, checks.Check{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errAbandoned) {
		t.Errorf("a polite handler: %v", err)
	}
}
