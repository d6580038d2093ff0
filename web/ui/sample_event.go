package ui

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"
)

// sampleSubject returns the trigger's subject with its wildcards filled in. It is empty if the subject has none.
func sampleSubject(t document.Trigger) string {
	if !strings.ContainsAny(t.Subject(), "*>") {
		return ""
	}
	return withoutWildcards(t.Subject())
}

func withoutWildcards(subject string) string {
	return strings.NewReplacer("*", "one", ">", "one").Replace(subject)
}

// ofEvent matches a field of the event in an expression, such as event.order.id.
var ofEvent = regexp.MustCompile(`\bevent((?:\.[A-Za-z_][0-9A-Za-z_]*)+)`)

// ofDuration matches a field of the event that is a number of hours or another unit, such as hours(event.sla).
var ofDuration = regexp.MustCompile(`\b(?:days|hours|minutes|seconds)\(` + ofEvent.String() + `\)`)

// sampleEvent makes up an event with the fields of a key expression, and of the times, texts and labels of a rule: without
// them, its alerts would have gaps.
func sampleEvent(d document.Document, key string) string {
	body, now := map[string]any{}, time.Now().UTC()
	sampleFields(body, ofEvent, key, "1234")
	sampleFields(body, ofEvent, d.Trigger.Since, now.Format(time.RFC3339))
	texts := slices.Collect(maps.Values(d.Labels))
	for _, s := range d.Steps() {
		for _, when := range []string{s.After.Computed, s.At} {
			sampleFields(body, ofDuration, when, 1)
			sampleFields(body, ofEvent, when, now.Add(time.Hour).Format(time.RFC3339))
		}
		texts = append(texts, s.Text)
	}
	for _, text := range texts {
		sampleFields(body, ofEvent, text, "sample")
	}
	fitShape(body, d.Trigger.Shape, now)
	text, err := json.Marshal(body)
	if err != nil || len(body) == 0 {
		return `{"id": "1234"}`
	}
	return indented(text)
}

// fitShape replaces the values of fields that a shape declares as no text; otherwise the event would be refused.
func fitShape(body map[string]any, shape document.Shape, now time.Time) {
	for name, form := range shape {
		switch inner, is := body[name].(map[string]any); {
		case is:
			fitShape(inner, form.Fields, now)
		case body[name] != "sample":
		case form.Kind == document.Number:
			body[name] = 1
		case form.Kind == document.Boolean:
			body[name] = true
		case form.Kind == document.Time:
			body[name] = now.Format(time.RFC3339)
		case form.Kind == document.List:
			body[name] = []any{}
		case form.Kind == document.Object:
			body[name] = map[string]any{}
		}
	}
}

// sampleFields sets the fields of an event that a pattern finds in an expression to a value, unless they have one.
func sampleFields(body map[string]any, pattern *regexp.Regexp, expression string, value any) {
	for _, read := range pattern.FindAllStringSubmatch(expression, -1) {
		names := strings.Split(read[1][1:], ".")
		last, at := len(names)-1, body
		for _, name := range names[:last] {
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			inner, is := at[name].(map[string]any)
			if !is {
				return // the field is read as a value, too
			}
			at = inner
		}
		if at[names[last]] == nil {
			at[names[last]] = value
		}
	}
}
