package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"deadman/rules/document"

	"github.com/google/go-cmp/cmp"

	"deadman/rules"
)

// baseRule is a valid document; the table below spoils one line of it, or adds one at the end.
const baseRule = `name: late
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate: [{after: 3h}]
slot: 15m
`

// withEdits replaces the base's line of a field with the lines of each edit, or adds them at the end.
func withEdits(edits ...string) string {
	text := baseRule
	for _, edit := range edits {
		text = applyEdit(text, edit)
	}
	return text
}

func applyEdit(text, edit string) string {
	field, _, _ := strings.Cut(edit, ":")
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, field+":") {
			lines[i] = edit + "\n"
			return strings.Join(lines, "")
		}
	}
	return text + edit + "\n"
}

// withoutField omits a field of the base.
func withoutField(field string) string {
	var kept []string
	for _, line := range strings.SplitAfter(baseRule, "\n") {
		if !strings.HasPrefix(line, field+":") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// problemsOf returns the problems of Parse, one a line: place, pointer, message.
func problemsOf(t *testing.T, text string) []string {
	t.Helper()
	_, err := rules.Parse([]byte(text), "bad.yaml")
	var problems document.Problems
	if err != nil && !errors.As(err, &problems) {
		t.Fatalf("Parse returned %T, not Problems: %v", err, err)
	}
	var lines []string
	for _, p := range problems {
		if p.File != "bad.yaml" {
			t.Errorf("%v does not name the file", p)
		}
		lines = append(lines, fmt.Sprintf("%d:%d %s: %s", p.Line, p.Column, p.Pointer, p.Message))
	}
	return lines
}

func TestBase(t *testing.T) {
	if problems := problemsOf(t, baseRule); problems != nil {
		t.Fatal(problems)
	}
}

func TestBadDocuments(t *testing.T) {
	for _, c := range slices.Concat(badDocuments, badMeanings) {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, problemsOf(t, c.text)); diff != "" {
				t.Errorf("%s\nproblems (-want +got):\n%s", c.text, diff)
			}
		})
	}
}

// TestAllProblemsAtOnce checks that a document with many errors reports each, in the order of the text.
func TestAllProblemsAtOnce(t *testing.T) {
	got := problemsOf(t, `name: Late
entity: order
trigger: {event: orders..created, key: evnt.id, fi: "true"}
escalate:
  - {after: 3h, severity: fatal}
  - {after: 2h}
slot: 7m
update: {event: x}
---
name: other
entity: order
trigger: {event: a, key: event.id}
escalate: []
`)
	var places []string
	for _, line := range got {
		place, _, _ := strings.Cut(line, ": ")
		places = append(places, place)
	}
	want := []string{
		"1:7 /name", "3:18 /trigger/event", "3:40 /trigger/key", "3:49 /trigger/fi",
		"5:27 /escalate/0/severity", "6:13 /escalate/1/after", "7:7 /slot", "8:1 /update/key", "13:1 /escalate",
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s\n%s", diff, strings.Join(got, "\n"))
	}
}

func TestProblemNamesEverything(t *testing.T) {
	_, err := rules.Parse([]byte(withEdits("escalate: [{after: 3h, severity: loud}]")), "shop.yaml")
	want := `shop.yaml:5:34: late: escalate[0].severity: "loud" is not a severity; write one of info, warning, error, critical`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
