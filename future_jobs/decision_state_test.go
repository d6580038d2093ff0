package futurejobs

import (
	"encoding/json"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// TestAlertsHaveLookupResult decides with and without a state in the answer, on each path that raises an alert.
func TestAlertsHaveLookupResult(t *testing.T) {
	drafts := []alerts.Draft{{Status: alerts.Firing}}
	job := Job{State: json.RawMessage(`{"status":"OLD"}`), CheckCount: 1}
	job.NextCheckAt = noon
	for name, answer := range map[string]checks.Answer{
		"goes on": {Next: noon.Add(time.Minute), Alerts: drafts},
		"ends":    {Outcome: checks.Exhausted, Alerts: drafts},
		"gave up": {Next: noon.Add(-time.Minute), Alerts: drafts},
	} {
		for state, want := range map[string]string{"": `{"status":"OLD"}`, `{"status":"NEW"}`: `{"status":"NEW"}`, `null`: `null`} {
			if answer.State = nil; state != "" {
				answer.State = json.RawMessage(state)
			}
			rule := &Rule{Grid: Grid(time.Minute), Limits: guards.Limits{MaxChecks: 9}}
			d := decideJob(rule, job, CheckTimes{}, answer, nil, noon)
			if len(d.Alerts) == 0 {
				t.Fatalf("%s: no alert", name)
			}
			for _, a := range d.Alerts {
				if string(a.State) != want {
					t.Errorf("%s, state %q: an alert carries %s, want %s", name, state, a.State, want)
				}
			}
			if string(d.Job.State) != `{"status":"OLD"}` {
				t.Errorf("%s: the job knows %s now", name, d.Job.State)
			}
		}
	}
}

// TestManualCheckReturnsItsResult ends a job by an effect with a newer state than the job's.
func TestManualCheckReturnsItsResult(t *testing.T) {
	rule := orderRule()
	ref := Ref{RuleID: 1, Key: "1"}
	job := Job{ID: 7, Ref: ref, CreatedAt: noon, State: json.RawMessage(`{"status":"OLD"}`), Alerts: []alerts.ID{{1}}}
	found := end(rule, "1")
	end := found.Action.(End)
	end.State = json.RawMessage(`{"status":"NEW"}`)
	for want, effect := range map[string]Effect{`{"status":"OLD"}`: found, `{"status":"NEW"}`: found.withAction(end)} {
		net := foldEffects([]Effect{effect}, map[Ref]Job{ref: job}, noon)
		if len(net.End) != 1 || len(net.End[0].Alerts) != 1 || string(net.End[0].Alerts[0].State) != want {
			t.Errorf("%+v, want an alert that carries %s", net.End, want)
		}
	}
}
