package rules

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"deadman/rules/document"
)

// checkDuration fails a fuzz test that takes long on one input.
func checkDuration(t *testing.T, begin time.Time, what string) {
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("%s took %s", what, took)
	}
}

func FuzzExpression(f *testing.F) {
	for _, source := range []string{
		`event.total > 0`, `event.a == "x" and not event.b`, `any(event.items, .n > 2)`, `date(event.at) + days(3) > since`,
		`event.a ?? event.b`, `sum(event.items, .n) / len(event.items)`, `event?.a?.b`, `{"a": event.a}["a"] == 1`,
		`map(filter(event.items, .n > 1), .sku)[0]`, `event.text matches "a+"`, `1..9`, `let x = 1; x`, `((((`, `event.text[1:2]`,
		`all(event.items, any(event.items, #.n == .n))`, `event.int ** event.int ** event.int`, `-9223372036854775808`, `"\u{10FFFF}"`,
		`event.items | map(.n) | sum()`, `if event.yes {1} else {2}`, `get(event, "a")`, `split(event.text, "")`, `string(event)`,
		`wildcard(1) + "/" + wildcard(2)`, `hours(event.int) + duration("1h")`, `date(state.at) - hours(1)`, `state.at == nil ? nil : date(state.at)`,
		`len(state.items)`, `job.count + job.turn`, `type(event.a) == "int" and not (event.b == 1 or true)`, `event.int > 5 and event.int < 3`,
		`event.at - since`, `get(event.items[-1], "n") ?? 1`, `find(event.items, .n > 1)?.sku`, `event.text + wildcard(3)`,
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		begin := time.Now()
		defer checkDuration(t, begin, source)
		for _, d := range []exprEnv{
			inKey, inDistinct, inIf, inSince, inNeed, inWhile, inRecheck, inAfter, inAt, inLookup, inLabel, inText, inText.withoutEvent(),
		} {
			x, err := compileExpression(source, d.withSubject("a.*.>"))
			if err != nil {
				continue
			}
			checkEvaluates(x, sampleScope(t))
			before := slices.Clone([]byte(sample))
			v, err := x.run(sampleScope(t))
			again, errAgain := x.run(sampleScope(t))
			if (err == nil) != (errAgain == nil) || err == nil && !equalValues(v, again) {
				t.Errorf("%s: %v, %v and then %v, %v", source, v, err, again, errAgain)
			}
			if !slices.Equal(before, []byte(sample)) {
				t.Errorf("%s changed what it read", source)
			}
		}
	})
}

// checkEvaluates evaluates x for the result of its environment; an error is fine.
func checkEvaluates(x *expression, s scope) {
	_, _ = x.holds(s)
	_, _ = x.keyOf(s)
	_, _ = x.instantOrNone(s)
	_, _ = x.span(s)
	_, _ = x.whole(s)
}

// equalValues reports whether two values have the same JSON, or none, such as NaN.
func equalValues(a, b any) bool {
	x, err := json.Marshal(a)
	y, errY := json.Marshal(b)
	return err != nil && errY != nil || string(x) == string(y)
}

// fullRule is a rule with nearly all fields.
const fullRule = `name: everything
description: "it's: #1"
entity: order
trigger: {event: orders.*.created, key: "wildcard(1) + event.id", if: event.total > 0, since: event.placed_at, shape: {id: text, total: number, placed_at: time, items: [{n: number}], rest: any, sla: number, eta: time, status: text, parcels: list}}
update: {event: orders.changed, key: event.id}
resolve:
  - {event: orders.shipped, key: event.id, distinct: event.parcel, need: len(state.parcels)}
  - {event: orders.changed, key: event.id, if: event.status == "CANCELLED", as: cancelled}
pause: {event: orders.changed, key: event.id, if: event.status == "ON_HOLD"}
while: state.status == "UNSHIPPED"
escalate:
  - {after: 1h, step: primary, severity: warning, text: "order {{key}} waits since {{since}}"}
  - {after: 8h, of: office, step: escalated, severity: critical}
  - {every: 24h, times: 3, within: office, step: reminder}
  - {after: hours(event.sla)}
  - {at: date(event.eta)}
recheck: date(state.eta) + minutes(10)
slot: 15m
catch_up: {after: 2h, do: skip}
hold: 1d
early: 2h
again: restart
guards: {timeout: 1s, attempts: 4, interval: 1s, jitter: 2s, max_checks: 99, horizon: 90d, end: true}
quiet: true
labels: {team: fulfilment, "y": "{{state.status}}"}
`

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"name: late\nentity: order\ntrigger: {event: a, key: event.id}\nescalate: [{after: 3h}]\n",
		`{"name": "late", "entity": "order", "trigger": {"event": "a", "key": "event.id"}, "escalate": [{"after": "3h"}]}`,
		"name: late\nwhile: !x\n", "a: &b [*b]\n", "- - - -", "{{{{", "? a\n: b", "a: |\n  b\n", "---\n...\n---", "%YAML 1.2\n---\na: b",
		"name: late\nentity: order\ntrigger: {event: a, key: event.id}\nresolve: [{event: b, key: event.id, as: done}]\nwhile: state.a == 1\nescalate:\n  - {after: 3h, text: \"{{key}}\"}\nhold: 0\nlabels: {a: b}\nguards: {timeout: 1s, end: true}\n",
		fullRule,
		"name: tick\nentity: e\nenabled: false\ntrigger: {schedule: \"? 0 * * 1-5\", zone: Europe/Berlin, keys: [a, \"1\"]}\nescalate: [{at: \"09:00\"}, {after: 12h}]\n",
		"name: beat\nentity: e\nenabled: false\ntrigger: {heartbeat: {event: d.*.beat, key: wildcard(1), every: 10m, grace: 2m, shape: {ok: boolean}}}\nhandler: h\n",
		"name: watched\nentity: e\nenabled: false\ntrigger: {event: a, key: event.id}\nlookup: {http: {source: s, path: \"/a/{{key}}\", absent: [404]}}\nescalate: [{every: 1h, times: 3}]\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer checkDuration(t, time.Now(), string(text))
		documents, err := Parse(text, "fuzz.yaml")
		var problems document.Problems
		switch {
		case err != nil && !errors.As(err, &problems):
			t.Fatalf("%T: %v", err, err)
		case err != nil && (len(problems) == 0 || documents != nil):
			t.Fatalf("%d problems and %d documents", len(problems), len(documents))
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("%+v has no place or no words", p)
			}
		}
		for _, d := range documents {
			roundTrip(t, d)
		}
	})
}

// roundTrip writes a document and reads it both ways.
func roundTrip(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, d document.Document,
) {
	text, err := d.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text, "again.json")
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	stored, err := decodeDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again[0], stored) {
		t.Fatalf("parsed %+v\nstored %+v", again[0], stored)
	}
	written, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Parse(written, "again.yaml")
	if err != nil {
		t.Fatalf("%s\n%v", written, err)
	}
	if !reflect.DeepEqual(read[0], stored) {
		t.Fatalf("%s\nread %+v\nstored %+v", written, read[0], stored)
	}
	back, err := again[0].Canonical()
	if err != nil || string(back) != string(text) {
		t.Fatalf("%s\nbecame\n%s\n%v", text, back, err)
	}
}
