package rules_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules"
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
