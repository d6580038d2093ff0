package rules

import (
	"fmt"
	"strings"
	"testing"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/calendars"
)

// compileRule returns the rule of a text, with the calendar office.
func compileRule(t *testing.T, text string) *Rule {
	t.Helper()
	known, err := calendars.Parse([]byte("calendars:\n  office: {zone: UTC, days: mon-fri, hours: \"09:00-17:00\"}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	documents, err := ParseAgainst([]byte(text), "", known)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(documents[0], RuleVersion{}, known)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCompiledSteps checks that a repeated step is one for each repetition, and that each is due at the time in the
// document.
func TestCompiledSteps(t *testing.T) {
	r := compileRule(t, `
name: late
entity: order
trigger: {event: orders.created, key: event.id}
escalate:
  - {after: 1h, step: first, severity: error, text: "{{key}}"}
  - {after: 8h, of: office}
  - {every: 24h, times: 2, within: office, step: again}
  - {after: hours(event.sla)}
  - {at: date(event.due)}
labels: {b: x, a: "{{key}}"}
`)
	var got []string
	for _, s := range r.steps {
		line := fmt.Sprintf("%s %d/%d %s", s.name, s.turn, s.turns, s.severity)
		switch {
		case s.at != nil:
			line += " at " + s.at.source
		case s.computed != nil:
			line += " after " + s.computed.source
		case s.every:
			line += " every " + s.after.String()
		default:
			line += " after " + s.after.String()
		}
		got = append(got, fmt.Sprintf("%s, of %q, within %q, text %v", line, s.of.Name(), s.within.Name(), s.text != nil))
	}
	want := []string{
		`first 1/1 error after 1h0m0s, of "", within "", text true`,
		`step-2 1/1 warning after 8h0m0s, of "office", within "", text false`,
		`again 1/2 warning every 24h0m0s, of "", within "office", text false`,
		`again 2/2 warning every 24h0m0s, of "", within "office", text false`,
		`step-4 1/1 warning after hours(event.sla), of "", within "", text false`,
		`step-5 1/1 warning at date(event.due), of "", within "", text false`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if len(r.labels) != 2 || r.labels[0].name != "a" || r.labels[1].name != "b" {
		t.Errorf("labels: %+v", r.labels)
	}
	if want := r.document.StepCount() + document.SpareChecks; r.engine.Limits.MaxChecks != want || want != 11 {
		t.Errorf("max_checks is %d, want %d", r.engine.Limits.MaxChecks, want)
	}
}

// TestCompiledWatches checks that an event records whether its subject's wildcards are read.
func TestCompiledWatches(t *testing.T) {
	r := compileRule(t, `
name: late
entity: order
trigger: {event: orders.*, key: event.id, since: date(wildcard(1))}
update: [{event: "a.*", key: wildcard(1)}, {event: "b.*", key: event.id}]
resolve:
  - {event: "a.*", key: event.id, distinct: wildcard(1), need: 2}
  - {event: "b.*", key: event.id, distinct: event.n, need: int(wildcard(1))}
  - {event: "c.*", key: event.id, if: wildcard(1) == "x", as: done}
  - {event: "d.*", key: event.id}
pause: {event: "a.*", key: event.id, if: event.on == true}
escalate: [{after: 1h}]
`)
	var got []string
	for _, w := range append(append(append([]subscription{r.trigger}, r.updates...), r.resolves...), r.pauses...) {
		got = append(got, fmt.Sprintf("%s wild %v, if %v, since %v, set %v %v, %s", w.subject, w.wild, w.cond != nil, w.since != nil, w.distinct != nil, w.need != nil, w.outcome))
	}
	want := []string{
		"orders.* wild true, if false, since true, set false false, ",
		"a.* wild true, if false, since false, set false false, ",
		"b.* wild false, if false, since false, set false false, ",
		"a.* wild true, if false, since false, set true true, resolved",
		"b.* wild true, if false, since false, set true true, resolved",
		"c.* wild true, if true, since false, set false false, done",
		"d.* wild false, if false, since false, set false false, resolved",
		"a.* wild false, if true, since false, set false false, ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("watches (-want +got):\n%s", diff)
	}
}

// TestYML pins the written form of a document: in order, without defaults.
func TestYML(t *testing.T) {
	for _, text := range []string{
		`name: late
entity: order
trigger:
  event: orders.created
  key: event.id
escalate:
  - after: 3h
`,
		`name: late
description: "it's: #1"
entity: order
enabled: false
trigger:
  event: orders.*
  key: wildcard(1)
  shape:
    id: text
    items:
      - sku: text
    sla: number
    tags:
      - text
update:
  event: orders.changed
  key: event.id
resolve:
  - event: orders.shipped
    key: event.id
  - event: orders.changed
    key: event.id
    if: event.status == "CANCELLED"
    as: cancelled
escalate:
  - every: 1d
    times: 3
    step: again
  - after: hours(event.sla)
    within: office
    severity: critical
    text: "order {{key}}"
slot: 15m
catch_up:
  do: skip
early: 0s
guards:
  max_checks: 99
labels:
  "y": "1"
`,
	} {
		documents, err := Parse([]byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := documents[0].YAML()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(text, "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
