package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

const handlerRule = `
name: shipping
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
handler: shipping-checks
slot: 15m
labels: {team: fulfilment, of: "{{key}}"}
`

// engineRule returns the engine's view of the rule, with the given handlers.
func engineRule(t *testing.T, handlers *checks.Handlers, more ...string) *futurejobs.Rule {
	t.Helper()
	db := openStore(t)
	v := saveRule(t, db, 0, handlerRule+strings.Join(more, "\n"))
	catalog := rules.NewCatalog(db, db.Shards())
	catalog.Handlers = handlers
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	rule, err := catalog.Rule(t.Context(), v.RuleID, v.Version)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// handlersWith returns handlers with the answer a for the rule.
func handlersWith(t *testing.T, a checks.Answer, wrap func(checks.Handler) checks.Handler) *checks.Handlers {
	t.Helper()
	var handler checks.Handler = checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) { return a, nil })
	if wrap != nil {
		handler = wrap(handler)
	}
	handlers := &checks.Handlers{}
	if err := handlers.Register("shipping-checks", handler); err != nil {
		t.Fatal(err)
	}
	return handlers
}

func TestHandlersAnswerIsFilledIn(t *testing.T) {
	rule := engineRule(t, handlersWith(t, checks.Answer{
		Next: clockTime(12, 0), Step: 1, Alerts: []alerts.Draft{
			{Text: "parcel lost"},
			{Text: "found", Status: alerts.Resolved, Severity: alerts.Critical, Labels: map[string]string{"of": "me", "parcel": "7"}},
		},
	}, nil))
	got, err := rule.Handler.Check(t.Context(), checks.Check{Key: "1042", Since: since, Slot: clockTime(11, 0)})
	if err != nil {
		t.Fatal(err)
	}
	want := checks.Answer{Next: clockTime(12, 0), Step: 1, Alerts: []alerts.Draft{
		{Text: "parcel lost", Status: alerts.Firing, Severity: alerts.Warning, Labels: map[string]string{"team": "fulfilment", "of": "1042"}},
		{Text: "found", Status: alerts.Resolved, Severity: alerts.Critical, Labels: map[string]string{"team": "fulfilment", "of": "me", "parcel": "7"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rule.MaxSeverity != alerts.Warning || rule.Limits.MaxChecks != document.SpareChecks {
		t.Errorf("severity of the engine's alert is %s, limit of checks is %d", rule.MaxSeverity, rule.Limits.MaxChecks)
	}
}

func TestInvalidAnswerIsError(t *testing.T) {
	for want, answer := range map[string]checks.Answer{
		`the outcome "Gone away" is not a name`:        {Outcome: "Gone away"},
		"it has the outcome resolved and a next check": {Outcome: checks.Resolved, Next: clockTime(12, 0)},
		"step 1 is before step 2, which was taken":     {Step: 1},
		"it has 33 alerts, the most is 32":             {Step: 2, Alerts: make([]alerts.Draft, 33)},
		`alerts[0]: "loud" is not a severity`:          {Step: 2, Alerts: []alerts.Draft{{Severity: "loud"}}},
		`alerts[0]: "gave_up" is not a status`:         {Step: 2, Alerts: []alerts.Draft{{Status: alerts.GaveUp}}},
		`alerts[0]: step: "a.b" is not a name`:         {Step: 2, Alerts: []alerts.Draft{{Step: "a.b"}}},
		"alerts[0]: the text has 5000 bytes":           {Step: 2, Alerts: []alerts.Draft{{Text: strings.Repeat("x", 5000)}}},
		"step 10001 is too high":                       {Step: 10001},
		"the next check is in the year 9999":           {Step: 2, Next: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), Nominal: true},
		"state: the body is not JSON":                  {Step: 2, State: json.RawMessage("{")},
		"state: it is not an object":                   {Step: 2, State: json.RawMessage("[]")},
		"state: the body has 262147 bytes":             {Step: 2, State: json.RawMessage(`"` + strings.Repeat("x", 256<<10+1) + `"`)},
		"alerts[0]: step index -1 is not between 0":    {Step: 2, Alerts: []alerts.Draft{{StepIndex: -1}}},
		"alerts[0]: skipped_steps has up to 32":        {Step: 2, Alerts: []alerts.Draft{{SkippedSteps: []string{"a b"}}}},
		`alerts[0]: the label "a b" is invalid`:        {Step: 2, Alerts: []alerts.Draft{{Labels: map[string]string{"a b": ""}}}},
	} {
		rule := engineRule(t, handlersWith(t, answer, nil))
		_, err := rule.Handler.Check(t.Context(), checks.Check{Key: "1", Since: since, Slot: clockTime(11, 0), Step: 2})
		if err == nil || !strings.Contains(err.Error(), "handler shipping-checks gave an invalid answer: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// inlineHandler declares that it only computes.
type inlineHandler struct{ checks.Handler }

func (inlineHandler) Inline() {}

func TestHandlerHasTimeoutAndItsEffects(t *testing.T) {
	plain := engineRule(t, handlersWith(t, checks.Answer{}, func(h checks.Handler) checks.Handler { return inlineHandler{h} }))
	if _, is := plain.Handler.(checks.Inline); is {
		t.Error("a handler of other code is called inline")
	}
	if _, is := plain.Handler.(checks.AtMostOnce); is {
		t.Error("a handler has effects that does not say so")
	}
	once := engineRule(t, handlersWith(t, checks.Answer{}, func(h checks.Handler) checks.Handler { return checks.WithAtMostOnce(h) }))
	if _, is := once.Handler.(checks.AtMostOnce); !is {
		t.Error("a handler has effects, and may be run twice")
	}
	byRule := engineRule(t, handlersWith(t, checks.Answer{}, nil), "at_most_once: true")
	if _, is := byRule.Handler.(checks.AtMostOnce); !is {
		t.Error("a handler has effects by the rule's word, and may be run twice")
	}
}

func TestMissingHandlerIsUndetermined(t *testing.T) {
	for name, handlers := range map[string]*checks.Handlers{"none": nil, "another": {}} {
		rule := engineRule(t, handlers)
		_, err := rule.Handler.Check(t.Context(), checks.Check{Key: "1"})
		var outage *checks.Outage
		if !errors.As(err, &outage) || outage.Source != "handler/shipping-checks" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManualJobOfHandler(t *testing.T) {
	db := openStore(t)
	saveRule(t, db, 0, handlerRule)
	rule, err := newCatalog(t, db).Newest("shipping")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rule.Start("1042", time.Time{}, clockTime(11, 0), nil, db.Shards()); err != nil {
		t.Error(err)
	}
}

func TestHandlerCountsUpToWhereStreamsAreRead(t *testing.T) {
	var at time.Time
	handlers := &checks.Handlers{}
	if err := handlers.Register("shipping-checks", checks.HandlerFunc(func(_ context.Context, c checks.Check) (checks.Answer, error) {
		at = c.At
		return checks.Answer{Outcome: checks.Cleared}, nil
	})); err != nil {
		t.Fatal(err)
	}
	rule := engineRule(t, handlers)
	for _, c := range []struct {
		name          string
		through, want time.Time
	}{
		{"no stream can end the job", time.Time{}, clockTime(12, 0)},
		{"the streams are read past the check", clockTime(12, 30), clockTime(12, 0)},
		{"the streams are read past the slot alone", clockTime(11, 20), clockTime(11, 20)},
	} {
		check := checks.Check{Key: "1", Slot: clockTime(11, 15), At: clockTime(12, 0), ReadThrough: c.through}
		if _, err := rule.Handler.Check(t.Context(), check); err != nil || !at.Equal(c.want) {
			t.Errorf("%s: the handler counts with %v, %v; want %v", c.name, at, err, c.want)
		}
	}
}
