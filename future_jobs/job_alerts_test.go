package futurejobs

import (
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// A job that got an alert back from the stream takes its step and does not raise the alert again.
func TestAlertThatJobHasIsNotRaisedAgain(t *testing.T) {
	rule := orderRule()
	job := Job{
		Ref: Ref{RuleID: rule.ID, Key: "1"}, ID: 7, Origin: alerts.OriginOf(noon.Add(-time.Hour), 5), CreatedAt: noon.Add(-time.Hour),
		FirstCheckAt: noon, NextCheckAt: noon, Since: noon.Add(-time.Hour),
	}
	step := checks.Answer{Next: noon.Add(time.Hour), Step: 1, Due: noon, Alerts: []alerts.Draft{{Status: alerts.Firing, Severity: alerts.Error}}}
	first := decideJob(rule, job, CheckTimes{}, step, nil, noon)
	if len(first.Alerts) != 1 {
		t.Fatalf("%d alerts, want 1", len(first.Alerts))
	}

	job.ID, job.CreatedAt, job.NextCheckAt = 8, noon.Add(3*time.Minute), noon.Add(4*time.Minute)
	job.Alerts = []alerts.ID{first.Alerts[0].ID}
	again := decideJob(rule, job, CheckTimes{}, step, nil, noon.Add(4*time.Minute))
	if len(again.Alerts) != 0 || len(again.Job.Alerts) != 1 || again.Job.Step != 1 {
		t.Errorf("raised %d alerts, the job has %d and took %d steps", len(again.Alerts), len(again.Job.Alerts), again.Job.Step)
	}
	next := again.Job
	next.NextCheckAt = noon.Add(5 * time.Minute)
	end := decideJob(rule, next, CheckTimes{}, checks.Answer{Alerts: []alerts.Draft{{Status: alerts.Resolved, Severity: alerts.Error}}}, nil, noon.Add(5*time.Minute))
	if len(end.Alerts) != 1 || len(end.Alerts[0].Closes) != 1 || end.Alerts[0].Closes[0] != first.Alerts[0].ID {
		t.Errorf("the end closes %+v, want %s", end.Alerts, first.Alerts[0].ID)
	}
}

// The alerts of a job sort in the order of their decisions, even if a step was due before the last alert.
func TestAlertsOfJobSortInOrderOfTheirDecisions(t *testing.T) {
	rule := orderRule()
	job := Job{
		Ref: Ref{RuleID: rule.ID, Key: "1"}, ID: 7, Origin: alerts.OriginOf(noon, 5), CreatedAt: noon,
		FirstCheckAt: noon.Add(time.Minute), NextCheckAt: noon.Add(5 * time.Minute),
	}
	job.Alerts = []alerts.ID{jobAlerts{rule, &job}.decision(1, alerts.Undetermined, 0, 0, noon.Add(5*time.Minute)).ID()}
	job.NextCheckAt = noon.Add(6 * time.Minute)
	d := decideJob(rule, job, CheckTimes{}, checks.Answer{
		Next: noon.Add(time.Hour), Step: 1, Due: noon.Add(time.Minute), Alerts: []alerts.Draft{{Status: alerts.Firing, Severity: alerts.Error}},
	}, nil, noon.Add(6*time.Minute))
	if last := d.Job.Alerts[len(d.Job.Alerts)-1]; !alerts.TimeOf(last).After(alerts.TimeOf(job.Alerts[0])) {
		t.Errorf("%s does not sort after %s", last, job.Alerts[0])
	}
}
