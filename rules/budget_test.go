package rules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"deadman/rules/bodies"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/subjects"
)

// largeEvent returns a body with a list, and a text of so many bytes each.
func largeEvent(t testing.TB, items, text int) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"id": "1", "list": make([]int, items), "s": strings.Repeat("y", text), "t": strings.Repeat("y", text), "blank": strings.Repeat(" ", text),
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An expression pays for all values that it makes and reads, in any position: no loop over a list makes more of one
// long text than the limit, nor compares or trims it once for each item.
func TestEvaluationIsMetered(t *testing.T) {
	const most = 64 << 20 // bytes that one evaluation may take
	few, many := largeEvent(t, 20, 20), largeEvent(t, 20_000, 30_000)
	for source, d := range map[string]exprEnv{
		`len(map(event.list, event.s + event.t)) > 0`:                  inIf,
		`len(string(map(event.list, event.s))) > 0`:                    inIf,
		`len(map(event.list, upper(event.s))) > 0`:                     inIf,
		`len(map(event.list, split(event.s, ""))) > 0`:                 inIf,
		`count(event.list, event.s == event.t) > 30000`:                inIf,
		`count(event.list, event.s != event.t) > 30000`:                inIf,
		`count(event.list, event.s < event.t) > 30000`:                 inIf,
		`count(event.list, event.s in [event.t, event.blank]) > 30000`: inIf,
		`count(event.list, trim(event.blank) == "") > 30000`:           inIf,
		`count(event.list, len(keys(event)) > 0) > 30000`:              inIf,
		`count(event.list, string(event) == "") > 30000`:               inIf,
		`count(event.list, max(1, event.list) == 1) > 30000`:           inIf,
		`map(event.list, event.s)`:                                     inText,
	} {
		x, err := compileExpression(source, d)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if _, err := x.run(scope{event: bodies.New(few)}); err != nil {
			t.Errorf("%s: of a small event: %v", source, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = x.run(scope{event: bodies.New(many)})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), errTooExpensive.Error()) {
			t.Errorf("%s: %v", source, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s took %d MiB", source, took>>20)
		}
	}
}

// The length of an alert's text does not grow with the values of its expressions.
func TestTextIsBounded(t *testing.T) {
	raised, err := compileTemplate("{{key}}: {{map(event.list, event.s)}}{{event.id}}", inText)
	if err != nil {
		t.Fatal(err)
	}
	if text := raised.render(scope{key: "k", event: bodies.New(largeEvent(t, 20_000, 60_000))}); len(text) > 300 || !strings.Contains(text, errTooExpensive.Error()) || !strings.HasSuffix(text, "1") {
		t.Errorf("%q", text)
	}
	if text := raised.render(scope{key: "k", event: bodies.New(largeEvent(t, 2, 3))}); text != `k: ["yyy","yyy"]1` {
		t.Errorf("%q", text)
	}
}

// costlyConditions returns conditions on an event of a rule, each cheaper than the limit of one expression.
func costlyConditions(kind, subject string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", kind)
	for i := range n {
		fmt.Fprintf(&b, "  - {event: %s, key: event.id, if: 'count(event.list, # == %d) > 30000'}\n", subject, i+1)
	}
	return b.String()
}

func compiledRule(t testing.TB, text string) *Rule {
	t.Helper()
	documents, err := Parse([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(documents[0], RuleVersion{RuleID: 1, Version: 1, Name: documents[0].Name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// matchEvent returns the match of a rule with an event.
func matchEvent(r *Rule, subject string, data []byte) *ruleMatch {
	m := matcher{body: bodies.New(data), shards: 1, event: futurejobs.Event{Stream: "S", Subject: subject, Seq: 1, At: time.Unix(1_800_000_000, 0), Data: data}}
	own := m.budget()
	h := ruleMatch{matcher: &m, Rule: r, spend: &own, versionOf: func(futurejobs.Job) *Rule { return r }}
	h.match()
	return &h
}

// refusedRules returns the names of the rules that refused an event, alone or together.
func refusedRules(refusals []futurejobs.Refusal) (names []string) {
	for _, r := range refusals {
		if len(r.Rules) > 0 {
			names = append(names, r.Rules...)
		} else {
			names = append(names, r.Rule)
		}
	}
	return names
}

// The rules of a token with bounds have a budget together: beyond it, each is refused the event as one that costs too
// much. Rules of other tokens, and rules without bounds, are evaluated all the same.
func TestRulesOfTenantHaveOneBudget(t *testing.T) {
	data := largeEvent(t, 20_000, 10)
	var saved []RuleVersion
	add := func(name string, bounds *access.Bounds) {
		documents, err := Parse([]byte("name: "+name+"\nentity: order\ntrigger: {event: orders.changed, key: event.id, if: 'count(event.list, # == 1) > 30000'}\nescalate: [{after: 3h}]\n"), "")
		if err != nil {
			t.Fatal(err)
		}
		document, err := documents[0].Canonical()
		if err != nil {
			t.Fatal(err)
		}
		saved = append(saved, RuleVersion{
			RuleID: int32(len(saved) + 1), Version: 1, Name: name, Entity: "order", Document: document, Bounds: bounds, SavedAt: minuteOf(0), Reads: []StreamBinding{{Subject: "orders.changed", Stream: "S"}},
		})
	}
	const rules = 80
	for i := range rules {
		add(fmt.Sprintf("acme-%d", i), &access.Bounds{Token: "acme", Subjects: subjects.List{"orders.>"}})
		add(fmt.Sprintf("plain-%d", i), nil)
	}
	add("beta", &access.Bounds{Token: "beta", Subjects: subjects.List{"orders.>"}})
	b := &Catalog{shards: 1}
	b.current.Store(newSnapshot(1, saved, nil, environment{}))
	event := futurejobs.Event{Stream: "S", Subject: "orders.changed", Seq: 100, At: minuteOf(30), Data: data}
	match := func() (refused int) {
		_, refusals := b.Match(event)
		event.Seq++
		for _, name := range refusedRules(refusals) {
			if refused++; !strings.HasPrefix(name, "acme-") {
				t.Errorf("%+v", refusals)
			}
		}
		return refused
	}
	first := match()
	if first == 0 || first > rules-tenantShare {
		t.Fatalf("%d of %d rules were refused the event", first, rules)
	}
	_, refusals := b.Match(event)
	if !strings.Contains(refusals[len(refusals)-1].Reason, errTenantSpent.Error()) {
		t.Errorf("%+v", refusals[len(refusals)-1])
	}
	for range costlyMost {
		match()
	}
	costly := b.Costly()
	if len(costly) != first {
		t.Errorf("%d rules are to be paused, and %d were refused", len(costly), first)
	}
}

// All expressions of a rule have one budget on an event. Beyond it the only result for the rule is one refusal, also in
// place of earlier effects.
func TestExpressionsOfRuleHaveOneBudget(t *testing.T) {
	text := "name: late\nentity: order\ntrigger: {event: orders.changed, key: event.id}\nescalate: [{after: 3h}]\n" +
		costlyConditions("update", "orders.changed", 32) + costlyConditions("resolve", "orders.changed", 32)
	r := compiledRule(t, text)
	data := largeEvent(t, 20_000, 10)
	h := matchEvent(r, "orders.changed", data)
	if len(h.effects) != 0 || len(h.refusals) != 1 || h.refusals[0].Part != "" || h.refusals[0].Rule != "late" || !strings.Contains(h.refusals[0].Reason, errSpent.Error()) {
		t.Errorf("%d effects, %+v", len(h.effects), h.refusals)
	}
	if again := matchEvent(r, "orders.changed", data); !reflect.DeepEqual(again.refusals[0], h.refusals[0]) {
		t.Errorf("%+v, and once more %+v", h.refusals, again.refusals)
	}
	if few := matchEvent(r, "orders.changed", largeEvent(t, 100, 10)); len(few.effects) != 1 || len(few.refusals) != 0 {
		t.Errorf("a small event: %+v, %+v", few.effects, few.refusals)
	}
}

// A check has one budget, too: its texts cost no more than that in any number.
func TestCheckHasOneBudget(t *testing.T) {
	x, err := compileExpression(`count(event.list, # == 1) > 0`, inText)
	if err != nil {
		t.Fatal(err)
	}
	data := largeEvent(t, 20_000, 10)
	w := contextOf(futurejobs.Job{Ref: futurejobs.Ref{Key: "1"}, Event: data})
	spent := 0
	for range 100 {
		if _, err := x.run(w.scope); err != nil {
			if !isCostly(err) || !strings.Contains(err.Error(), errSpent.Error()) {
				t.Fatal(err)
			}
			spent++
		}
	}
	if spent < 50 || spent == 100 {
		t.Errorf("%d of 100 are beyond the budget", spent)
	}
	if _, err := x.run(contextOf(futurejobs.Job{Ref: futurejobs.Ref{Key: "1"}, Event: data}).scope); err != nil {
		t.Errorf("the next check: %v", err)
	}
}

// A preview has one budget for all its events and checks.
func TestPreviewHasOneBudget(t *testing.T) {
	text := "name: late\nentity: order\ntrigger: {event: orders.created, key: event.id}\nwhile: 'count(event.list, # == 1) < 30000'\nslot: 1s\n" +
		"escalate: [{every: 1m, times: 900}]\nguards: {max_checks: 1000}\n"
	p, err := compiledRule(t, text).Preview(t.Context(), []PreviewEvent{{At: time.Unix(1_800_000_000, 0), Data: largeEvent(t, 20_000, 10)}}, time.Time{})
	if err != nil || len(p.Lines) < 10 || len(p.Lines) > 900 || !strings.Contains(p.Reason, "cost more than a preview allows") {
		t.Errorf("%d lines, %q, %v", len(p.Lines), p.Reason, err)
	}
}

// BenchmarkMatch measures an event that creates a job, and one that ends it.
func BenchmarkMatch(b *testing.B) {
	r := compiledRule(b, "name: late\nentity: order\ntrigger: {event: orders.created, key: event.id, if: event.total > 3}\n"+
		"resolve: {event: orders.shipped, key: event.id, if: event.status == \"SHIPPED\"}\nescalate: [{after: 3h}]\n")
	data := []byte(`{"id": "1042", "total": 12, "status": "SHIPPED"}`)
	for _, subject := range []string{"orders.created", "orders.shipped"} {
		b.Run(subject, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if h := matchEvent(r, subject, data); len(h.effects) != 1 {
					b.Fatal(h.refusals)
				}
			}
		})
	}
}
