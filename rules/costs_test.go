package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// slowRule is a rule of a pattern that costs too much on a long text.
const slowRule = `
name: acme-slow
entity: spy
trigger: {event: acme.big, key: event.id, if: 'event.s matches "(x{0,30}y?){0,3}z" or event.s matches "(x{0,30}y?){0,3}w"'}
escalate: [{after: 1h, severity: warning}]
`

// quickRule listens to the same events.
const quickRule = `
name: quick
entity: order
trigger: {event: acme.big, key: event.id}
escalate: [{after: 1h}]
`

// A rule that costs too much on five events is not evaluated any more, and the others are. The events that it misses
// are kept.
func TestCostlyRuleIsHalted(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, slowRule)
	saveRule(t, s, 0, quickRule)
	b := newCatalog(t, s)
	big := fmt.Sprintf(`{"id": "1", "s": %q}`, strings.Repeat("x", 250_000))
	reasons := func(seq uint64, body string) (string, bool) {
		t.Helper()
		effects, refusals := b.Match(event(seq, "acme.big", body))
		if !slices.ContainsFunc(effects, func(e futurejobs.Effect) bool { return e.Rule.Name == "quick" }) {
			t.Errorf("event %d: the other rule is not evaluated", seq)
		}
		switch {
		case len(refusals) == 0:
			return "", false
		case len(refusals) > 1 || refusals[0].Rule != "acme-slow" || refusals[0].Part != "":
			t.Errorf("event %d: %+v", seq, refusals)
		}
		return refusals[0].Reason, strings.Contains(refusals[0].Reason, "deadman pauses the rule")
	}
	for range 3 { // an event that is matched again counts once
		for seq := range uint64(4) {
			if why, stopped := reasons(seq+1, big); !strings.Contains(why, "takes too long on this event") || stopped {
				t.Errorf("event %d: %s", seq+1, why)
			}
		}
	}
	if why, stopped := reasons(5, `{"id": "2", "s": "z"}`); why != "" || stopped || len(b.Costly()) != 0 {
		t.Errorf("a small event: %s; %+v", why, b.Costly())
	}
	reasons(6, big)
	if why, stopped := reasons(7, `{"id": "3", "s": "z"}`); !stopped {
		t.Errorf("after five events it is still evaluated: %s", why)
	}
	costly := b.Costly()
	if len(costly) != 1 || costly[0] != (rules.Costly{Rule: "acme-slow", Version: 1, Severity: "warning"}) || len(b.Halted()) != 0 {
		t.Fatalf("%+v, halted %+v", costly, b.Halted())
	}
	if effects, refusals := b.MatchDeadLetter(futurejobs.DeadLetter{Rule: "acme-slow", Event: event(7, "acme.big", `{"id": "3", "s": "z"}`)}); len(effects) != 1 || len(refusals) != 0 {
		t.Errorf("a letter of it is tried again: %+v, %+v", effects, refusals)
	}

	// Another node learns of it from the database.
	if err := s.Halt(t.Context(), "acme-slow", 1, "of a test"); err != nil {
		t.Fatal(err)
	}
	b = newCatalog(t, s)
	if _, stopped := reasons(8, `{"id": "4", "s": "z"}`); !stopped || len(b.Halted()) != 1 || len(b.Costly()) != 0 {
		t.Errorf("stopped: %t, halted %+v, costly %+v", stopped, b.Halted(), b.Costly())
	}
	for of, l := range map[string]futurejobs.DeadLetter{
		"the rule": {Rule: "acme-slow", Part: futurejobs.Triggers, Event: event(7, "acme.big", `{"id": "3", "s": "z"}`)},
		"several rules": futurejobs.NewDeadLetter(event(7, "acme.big", `{"id": "3", "s": "z"}`),
			futurejobs.Refusal{Rule: "acme-*", Rules: []string{"acme-slow"}}, time.Time{}),
		"the subject": {Event: event(7, "acme.big", `{"id": "3", "s": "z"}`)},
	} {
		_, refusals := b.MatchDeadLetter(l)
		if len(refusals) != 1 || refusals[0].Rule != "acme-slow" || refusals[0].Part != l.Part || !strings.Contains(refusals[0].Reason, "resume the rule") {
			t.Errorf("a letter of %s is tried again during the pause: %+v", of, refusals)
		}
	}
	if err := s.Pause(t.Context(), "acme-slow", false); err != nil {
		t.Fatal(err)
	}
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why, stopped := reasons(9, big); why == "" || stopped || len(b.Halted()) != 0 {
		t.Errorf("resumed: %s, %t, %+v", why, stopped, b.Halted())
	}
}

// A rule that was saved again is judged by its new version.
func TestChangedCostlyRuleIsEvaluatedAgain(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, slowRule)
	b := newCatalog(t, s)
	big := fmt.Sprintf(`{"id": "1", "s": %q}`, strings.Repeat("x", 250_000))
	for seq := range uint64(5) {
		b.Match(event(seq+1, "acme.big", big))
	}
	saveRule(t, s, 5, strings.ReplaceAll(slowRule, "{0,30}", "*"))
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if costly := b.Costly(); len(costly) != 0 {
		t.Errorf("%+v", costly)
	}
	checkMatch(t, b, event(6, "acme.big", `{"id": "1", "s": "z"}`), "start acme-slow@2 1 11:05")
	if err := s.Halt(t.Context(), "acme-slow", 1, "of a test"); !errors.Is(err, rules.ErrConflict) {
		t.Errorf("halted as it was before: %v", err)
	}
}
