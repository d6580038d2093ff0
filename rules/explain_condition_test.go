package rules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/checks"
)

// TestConditionExplanations checks that the values of the condition are reported for a check that leaves the job pending,
// or raises no alert.
func TestConditionExplanations(t *testing.T) {
	const event = `{"id": "1042", "status": "NEW", "total": 12.50, "paid": false, "eta": null, "lines": [{"n": 1}, {"n": 2}], "address": {"city": "Ulm", "floor": 3}}`
	for _, c := range []struct {
		name    string
		while   string
		queried bool
		found   string
		want    string
	}{
		{name: "text", while: `state.status == "NEW"`, want: `state.status = "NEW"`},
		{name: "in the order it is written in, each once", while: `(state.total > 1 or state.total < 0) and event.status != "X"`, want: `state.total = 12.5, event.status = "NEW"`},
		{name: "deep", while: `state.address != nil and state.address.city == "Ulm"`, want: `state.address.city = "Ulm"`},
		{name: "no text", while: `not state.paid and state.total == 12.5`, want: `state.paid = false, state.total = 12.5`},
		{name: "missing", while: `(state.carrier ?? "none") == "none" and state.eta == nil`, want: `state.carrier is missing, state.eta is missing`},
		{name: "what is made of others", while: `len(state.lines) == 2 and "city" in state.address`, want: `state.lines = a list of 2, state.address = an object of 2 fields`},
		{name: "no text that is code", while: `state.note == nil`, found: `{"note": null}`, queried: true, want: `state.note is missing`},
		{name: "found", while: `state.status == "OPEN" and event.status == "NEW"`, queried: true, found: `{"status": "OPEN"}`, want: `state.status = "OPEN", event.status = "NEW"`},
		{name: "nothing is known of it", while: `(state.status ?? "GONE") == "GONE"`, queried: true, want: `state.status is missing`},
		{name: "all of it", while: `state == nil`, queried: true, want: `state is missing`},
		{name: "a time is no condition on the state", while: `since > date("2020-01-01T00:00:00Z")`, want: ""},
		{
			name: "long", while: `state.note != ""`, queried: true, found: `{"note": "<b>` + strings.Repeat("ä", 300) + `"}`,
			want: `state.note = "<b>` + strings.Repeat("ä", 56) + `…"`,
		},
		{
			name: "much", while: `state.note != "" and state.a != "" and state.b != "" and state.c != ""`, queried: true,
			found: fmt.Sprintf(`{"note": %[1]q, "a": %[1]q, "b": %[1]q, "c": %[1]q}`, strings.Repeat("x", 50)),
			want:  `state.note = "` + strings.Repeat("x", 50) + `", state.a = "` + strings.Repeat("x", 50) + `", state.b = "` + strings.Repeat("x", 17) + "…",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := compileRule(t, strings.ReplaceAll(lookupRule, "%WHILE%", "'"+c.while+"'")).Engine()
			check := checks.Check{Key: "1042", Since: since, Slot: clockTime(12, 0), Event: []byte(event), Queried: c.queried}
			if check.State = check.Event; c.found != "" {
				check.Found = []byte(c.found)
			}
			answer, err := rule.Handler.Check(t.Context(), check)
			if err != nil || answer.Next.IsZero() {
				t.Fatalf("%+v, %v; want it to go on", answer, err)
			}
			if answer.Values != c.want {
				t.Errorf("saw  %s\nwant %s", answer.Values, c.want)
			}
		})
	}
}

// TestAlertedFailureIsNotRepeated checks that a check that ends the job with an alert reports no values.
func TestAlertedFailureIsNotRepeated(t *testing.T) {
	once := strings.Replace(resolvableRule, "hold: 7d", "hold: 0", 1)
	for _, c := range []struct {
		name  string
		check checks.Check
		want  string
	}{
		{"it goes on", checks.Check{Slot: clockTime(11, 15), State: open}, `state.status = "OPEN"`},
		{"the last step", checks.Check{Slot: clockTime(13, 15), State: open, Step: 2}, ""},
		{"cleared, and closed by an alert", checks.Check{Slot: clockTime(11, 30), State: shut, AlertCount: 1}, ""},
		{"cleared before anything was said", checks.Check{Slot: clockTime(11, 0), State: shut}, `state.status = "SHUT"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check.Key, c.check.Since = "1", since
			answer, err := compileRule(t, once).Engine().Handler.Check(t.Context(), c.check)
			if err != nil || answer.Values != c.want {
				t.Errorf("saw %q, %v; want %q", answer.Values, err, c.want)
			}
		})
	}
}

// BenchmarkCheckContinues measures a check that leaves the job pending, with its report.
func BenchmarkCheckContinues(b *testing.B) {
	h := compileRule(b, resolvableRule).Engine().Handler
	c := checks.Check{Key: "1", Since: since, Slot: clockTime(11, 0), At: clockTime(11, 0).Add(time.Second)}
	c.Event = []byte(`{"id":"e5fa5a7210941f7d56d0208e4e071d35","total":12.5,"placed_at":"2026-01-01T10:00:00Z","status":"OPEN","customer":"x"}`)
	c.State = c.Event
	b.ReportAllocs()
	for b.Loop() {
		if a, err := h.Check(b.Context(), c); err != nil || a.Next.IsZero() {
			b.Fatal(a, err)
		}
	}
}
