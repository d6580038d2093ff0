package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	"deadman/rules"
)

// compileRule returns the first rule of a text.
func compileRule(t testing.TB, text string) *rules.Rule {
	t.Helper()
	documents, err := rules.Parse([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := rules.Compile(documents[0], rules.RuleVersion{RuleID: 7, Version: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const resolvableRule = `
name: late
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
while: state.status == "OPEN"
escalate:
  - {after: 1h, step: first, severity: info}
  - {after: 2h, step: second, severity: critical, text: "{{step}} {{key}} {{state.status}}"}
  - {after: 3h, step: third, severity: warning}
slot: 15m
hold: 7d
labels: {team: x}
`

var (
	since = time.Date(2026, 3, 1, 10, 5, 0, 0, time.UTC)
	open  = []byte(`{"status": "OPEN"}`)
	shut  = []byte(`{"status": "SHUT"}`)
	none  = []byte(`{}`)
)

func clockTime(hour, minute int) time.Time {
	return time.Date(2026, 3, 1, hour, minute, 0, 0, time.UTC)
}

func TestCheck(t *testing.T) {
	team := map[string]string{"team": "x"}
	first := alerts.Draft{Status: alerts.Firing, Severity: alerts.Info, Step: "first", Text: "no orders.shipped for order 1 within 1h of the start of the job", Labels: team}
	second := alerts.Draft{Status: alerts.Firing, Severity: alerts.Critical, Step: "second", StepIndex: 1, Text: "second 1 OPEN", Labels: team}
	third := alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Step: "third", StepIndex: 2, Text: "no orders.shipped for order 1 within 3h of the start of the job", Labels: team}
	quiet := strings.Replace(resolvableRule, "labels:", "quiet: true\nlabels:", 1)
	unheld := strings.Replace(resolvableRule, "hold: 7d", "hold: 0", 1)
	alone := strings.Replace(resolvableRule, "resolve: {event: orders.shipped, key: event.id}\n", "", 1)

	for _, c := range []struct {
		name  string
		rule  string
		check checks.Check
		want  checks.Answer
	}{
		{
			"before the first step", resolvableRule,
			checks.Check{Slot: clockTime(11, 0), State: open},
			checks.Answer{Next: clockTime(11, 15), Nominal: true},
		},
		{
			"the first step", resolvableRule,
			checks.Check{Slot: clockTime(11, 15), State: open},
			checks.Answer{Next: clockTime(12, 15), Nominal: true, Step: 1, Due: clockTime(11, 5), Alerts: []alerts.Draft{first}},
		},
		{
			"the first step was taken", resolvableRule,
			checks.Check{Slot: clockTime(11, 30), State: open, Step: 1},
			checks.Answer{Next: clockTime(12, 15), Nominal: true, Step: 1},
		},
		{
			"a step that was taken is not taken again", resolvableRule,
			checks.Check{Slot: clockTime(11, 15), State: open, Step: 2},
			checks.Answer{Next: clockTime(13, 15), Nominal: true, Step: 2},
		},
		{
			"two are due at once", resolvableRule,
			checks.Check{Slot: clockTime(12, 15), State: open},
			checks.Answer{Next: clockTime(13, 15), Nominal: true, Step: 2, Due: clockTime(12, 5), Alerts: []alerts.Draft{withSkipped(second, "first")}},
		},
		{
			"checked late: what is due by then", resolvableRule,
			checks.Check{Slot: clockTime(11, 15), At: clockTime(12, 20), State: open},
			checks.Answer{Next: clockTime(13, 15), Nominal: true, Step: 2, Due: clockTime(12, 5), Alerts: []alerts.Draft{withSkipped(second, "first")}},
		},
		{
			"the last step holds the job", resolvableRule,
			checks.Check{Slot: clockTime(13, 15), State: open, Step: 2},
			checks.Answer{Next: clockTime(13, 15).Add(7 * 24 * time.Hour), Nominal: true, Step: 3, Due: clockTime(13, 5), Alerts: []alerts.Draft{third}},
		},
		{
			"late, all are due", resolvableRule,
			checks.Check{Slot: clockTime(11, 15), At: clockTime(20, 1), State: open, Step: 1},
			checks.Answer{Next: clockTime(20, 0).Add(7 * 24 * time.Hour), Nominal: true, Step: 3, Due: clockTime(13, 5), Alerts: []alerts.Draft{withSkipped(third, "second")}},
		},
		{
			"the hold is over", resolvableRule,
			checks.Check{Slot: clockTime(13, 15).Add(7 * 24 * time.Hour), State: open, Step: 3},
			checks.Answer{Outcome: checks.Exhausted, Step: 3},
		},
		{
			"a check in between leaves the hold alone", resolvableRule,
			checks.Check{Slot: clockTime(15, 30), State: open, Step: 3},
			checks.Answer{Next: clockTime(13, 15).Add(7 * 24 * time.Hour), Nominal: true, Step: 3},
		},
		{
			"no hold: the last step ends", unheld,
			checks.Check{Slot: clockTime(13, 15), State: open, Step: 2},
			checks.Answer{Outcome: checks.Exhausted, Step: 3, Due: clockTime(13, 5), Alerts: []alerts.Draft{third}},
		},
		{
			"no resolve: the last step ends", alone,
			checks.Check{Slot: clockTime(13, 15), State: open, Step: 2},
			checks.Answer{Outcome: checks.Exhausted, Step: 3, Due: clockTime(13, 5), Alerts: []alerts.Draft{withText(third, "state.status == \"OPEN\" still holds for order 1, 3h after the start of the job")}},
		},
		{
			"cleared before anything was said", resolvableRule,
			checks.Check{Slot: clockTime(11, 15), State: shut},
			checks.Answer{Outcome: checks.Cleared},
		},
		{
			"cleared after the second step", resolvableRule,
			checks.Check{Slot: clockTime(13, 15), State: shut, Step: 2, AlertCount: 2},
			checks.Answer{Outcome: checks.Cleared, Step: 2, Alerts: []alerts.Draft{{
				Status: alerts.Resolved, Severity: alerts.Critical, Step: "second", StepIndex: 1,
				Text: "order 1: the condition no longer holds", Labels: team,
			}}},
		},
		{
			"cleared after undetermined checks", resolvableRule,
			checks.Check{Slot: clockTime(11, 15), State: shut, AlertCount: 1},
			checks.Answer{Outcome: checks.Cleared, Alerts: []alerts.Draft{{
				Status: alerts.Resolved, Severity: alerts.Critical, Text: "order 1: the condition no longer holds", Labels: team,
			}}},
		},
		{
			"cleared quietly", quiet,
			checks.Check{Slot: clockTime(13, 15), State: shut, Step: 2, AlertCount: 2},
			checks.Answer{Outcome: checks.Cleared, Step: 2},
		},
		{
			"the state counts, not the event", resolvableRule,
			checks.Check{Slot: clockTime(11, 0), Event: shut, State: open},
			checks.Answer{Next: clockTime(11, 15), Nominal: true},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check.Key, c.check.Since = "1", since
			got, err := compileRule(t, c.rule).Engine().Handler.Check(t.Context(), c.check)
			if err != nil {
				t.Fatal(err)
			}
			got.Values = "" // see TestConditionExplanations
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func withSkipped(d alerts.Draft, passed ...string) alerts.Draft {
	d.SkippedSteps = passed
	return d
}

func withText(d alerts.Draft, text string) alerts.Draft {
	d.Text = text
	return d
}

// TestUndeterminedChecks checks that an expression that cannot be evaluated is an error, never "fine".
func TestUndeterminedChecks(t *testing.T) {
	r := compileRule(t, resolvableRule)
	for name, state := range map[string][]byte{
		"a missing field": none, "null": []byte(`{"status": null}`), "a number": []byte(`{"status": 1}`),
		"not JSON": []byte(`OPEN`), "no body": nil, "a list": []byte(`["OPEN"]`),
	} {
		answer, err := r.Engine().Handler.Check(t.Context(), checks.Check{Key: "1", Since: since, Slot: clockTime(11, 15), State: state})
		if err == nil {
			t.Errorf("%s: %+v", name, answer)
		}
	}
}

// TestTextNeverLosesAlert checks that a text that cannot be rendered is raised with a mark in it.
func TestTextNeverLosesAlert(t *testing.T) {
	r := compileRule(t, `
name: late
entity: order
trigger: {event: orders.created, key: event.id}
escalate: [{after: 1h, text: "{{key}} of {{event.customer.name}}"}]
`)
	got, err := r.Engine().Handler.Check(t.Context(), checks.Check{Key: "1", Since: since, Slot: clockTime(12, 0), Event: []byte(`{"no json`), State: []byte(`{"no json`)})
	if err != nil || len(got.Alerts) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if want := "1 of {{event.customer.name: the body is not JSON}}"; got.Alerts[0].Text != want {
		t.Errorf("got %q, want %q", got.Alerts[0].Text, want)
	}
}

// TestCourseOfJob checks that from check to check every step raises one alert, in order, and the job ends.
func TestCourseOfJob(t *testing.T) {
	r := compileRule(t, resolvableRule)
	c := checks.Check{Key: "1", Since: since, Slot: clockTime(11, 15), State: open}
	var texts []string
	for range 10 {
		answer, err := r.Engine().Handler.Check(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answer.Alerts {
			texts = append(texts, a.Step)
		}
		c.Count++
		if broken := r.Engine().Limits.Judge(c.Slot, answer.Next, c.Count); !answer.Next.IsZero() && broken != "" && !answer.Nominal {
			t.Fatalf("check %d breaks %s", c.Count, broken)
		}
		if answer.Next.IsZero() {
			break
		}
		c.Slot, c.Step = answer.Next, answer.Step
	}
	if diff := cmp.Diff([]string{"first", "second", "third"}, texts); diff != "" || c.Count != 4 {
		t.Errorf("%d checks; alerts (-want +got):\n%s", c.Count, diff)
	}
}
