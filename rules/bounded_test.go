package rules_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
	"deadman/rules/document"
)

// A rule with a document out of the bounds that it was saved with, as after a change in the database, is not run and
// reports an error. Another rule on the same subject continues.
func TestRuleOutOfItsBoundsIsNotRun(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, orderRules)
	documents, err := rules.Parse([]byte("name: acme-spy\nentity: order\ntrigger: {event: orders.created, key: event.id}\nescalate: [{after: 1h, step: s}]\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	document, err := documents[0].Canonical()
	if err != nil {
		t.Fatal(err)
	}
	spy, err := s.Save(t.Context(), rules.RuleVersion{
		Name: "acme-spy", Entity: "order", Document: document, Reads: []rules.StreamBinding{{Subject: "orders.created", Stream: "S"}},
		Bounds: &access.Bounds{Token: "acme", Subjects: []string{"acme.>"}},
	}, rules.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	b := newCatalog(t, s)
	effects, refusals := b.Match(futurejobs.Event{Stream: "S", Subject: "orders.created", Seq: 1, At: time.Now(), Data: []byte(`{"id": "1", "total": 5}`)})
	if len(effects) == 0 {
		t.Error("the other rule does not run")
	}
	for _, e := range effects {
		if e.Rule.Name == "acme-spy" {
			t.Errorf("the rule asks for %+v", e)
		}
	}
	if len(refusals) != 1 || refusals[0].Rule != "acme-spy" || !strings.Contains(refusals[0].Reason, "out of the token's bounds") {
		t.Errorf("refusals: %+v", refusals)
	}
	if _, err := b.Rule(t.Context(), spy.RuleID, spy.Version); err == nil || !strings.Contains(err.Error(), "may not read the subject") {
		t.Errorf("a check of it: %v", err)
	}
	r := &rules.Registry{Store: s, Catalog: b, Jobs: s, Log: discardLog()}
	l, err := r.Get(t.Context(), "acme-spy")
	if err != nil || l.Err == nil || !strings.Contains(l.Err.Error(), "acme.>") {
		t.Errorf("listed as %v, %v", l.Err, err)
	}
}

// A handler is called for a trial only with a token that may call it.
func TestTryHandlerStaysWithinBounds(t *testing.T) {
	called := 0
	h := &checks.Handlers{}
	if err := h.Register("shipping", checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) {
		called++
		return checks.Answer{Outcome: checks.Cleared}, nil
	})); err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	r := &rules.Registry{Store: s, Catalog: newCatalog(t, s), Jobs: s, Handlers: h, Log: discardLog()}
	for name, want := range map[string]int{"acme-*": 0, "ship*": 1} {
		called = 0
		ctx := access.Within(t.Context(), &access.Bounds{Token: "acme", Handlers: []string{name}})
		if _, err := r.TryHandler(ctx, "shipping", "1", []byte("{}"), time.Now()); called != want || (err == nil) != (want == 1) {
			t.Errorf("with %s it is called %d times: %v", name, called, err)
		}
	}
}

// A token with a prefix saves no rule that keeps rows for longer than the node keeps others; a token without one does.
func TestTenantsKeepNoLongerThanTheNode(t *testing.T) {
	s := openStore(t)
	_, b := newBroker(t)
	r := newRegistry(b, s)
	r.KeepMost = rules.KeptMost{History: 90 * futurejobs.Day, Alerts: 30 * futurejobs.Day}
	tenant := access.Within(t.Context(), &access.Bounds{Token: "acme", Prefix: "r-"})
	for keep, at := range map[string]string{
		"{history: 90d, alerts: 30d, outcomes: {resolved: 7d}}": "",
		"{history: 91d}":               "/keep/history",
		"{alerts: 31d}":                "/keep/alerts",
		"{outcomes: {resolved: 400d}}": "/keep/outcomes/resolved",
	} {
		text := "name: r-kept\nentity: order\ntrigger: {heartbeat: {every: 1h, keys: [a]}}\nescalate: [{after: 1h, step: s}]\nkeep: " + keep + "\n"
		for ctx, isTenant := range map[context.Context]bool{tenant: true, t.Context(): false} {
			_, err := r.Save(ctx, []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion, DryRun: true})
			var problems document.Problems
			switch refused := isTenant && at != ""; {
			case !refused && err != nil:
				t.Errorf("%s, tenant %t: %v", keep, isTenant, err)
			case refused && (!errors.As(err, &problems) || len(problems) != 1 || problems[0].Pointer != at || problems[0].Line != 5):
				t.Errorf("%s: refused with %v, want a problem at %s", keep, err, at)
			}
		}
	}
}
