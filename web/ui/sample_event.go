package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"deadman/rules"
	"deadman/rules/document"
	"deadman/web"
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

// fieldPattern matches a field of the event in an expression, such as event.order.id.
const fieldPattern = `\bevent((?:\??\.[A-Za-z_][0-9A-Za-z_]*)+)`

// The uses of a field that tell its kind, each with the field as its first group.
var (
	anyUse      = regexp.MustCompile(fieldPattern)
	wholeUse    = regexp.MustCompile(`^\s*` + fieldPattern + `\s*$`)
	numberUses  = regexp.MustCompile(`\b(?:days|hours|minutes|seconds|abs|ceil|floor|round)\(\s*` + fieldPattern + `\b|` + fieldPattern + `\s*[*/%]|[*/%]\s*` + fieldPattern)
	dateUses    = regexp.MustCompile(`\bdate\(\s*` + fieldPattern)
	spanUses    = regexp.MustCompile(`\bduration\(\s*` + fieldPattern)
	listUses    = regexp.MustCompile(`\b(?:all|any|one|none|filter|map|count|sum|len|find|first|last)\(\s*` + fieldPattern)
	comparisons = regexp.MustCompile(fieldPattern + `\s*(==|>=|<=|>|<|in\s*\[|startsWith|endsWith|contains)\s*("[^"\\]*"|'[^'\\]*'|-?[0-9]+(?:\.[0-9]+)?|true|false)`)
)

// guessedEvent is a made-up event: a value for each field that a rule reads.
type guessedEvent struct {
	paths  []string // of the fields, such as order.id, in the order of their use
	values map[string]any
}

// guessEvent makes up an event with the fields of a key expression, and of the condition, times, texts and labels of a
// rule: without them, the rule refuses the event, or its alerts have gaps. The use of a field tells its value.
func guessEvent(d document.Document, key string, now time.Time) *guessedEvent {
	g := &guessedEvent{values: map[string]any{}}
	steps, texts := []string{}, slices.Sorted(maps.Values(d.Labels))
	for _, s := range d.Steps() {
		steps = append(steps, s.After.Computed, s.At)
		texts = append(texts, s.Text)
	}
	condition := d.Trigger.If
	h := d.Trigger.Heartbeat
	if h != nil {
		condition = h.If
		g.set(wholeUse, h.Kind, string(rules.Success))
	}
	if h != nil && len(h.Keys) > 0 {
		g.set(wholeUse, key, h.Keys[0])
	}
	g.compare(condition)
	later := now.Add(time.Hour).Format(time.RFC3339)
	for _, expression := range slices.Concat([]string{key, condition, d.Trigger.Since}, steps, texts) {
		g.set(numberUses, expression, 1)
		g.set(spanUses, expression, "1h")
		g.set(listUses, expression, []any{"sample"})
	}
	for _, when := range steps {
		if date := dateUses.FindStringSubmatch(when); date != nil && anyUse.MatchString(key) && strings.Contains(key, "event"+date[1]) {
			g.set(dateUses, when, now.Add(24*time.Hour).Format(time.DateOnly)) // a day of the key, such as that of an import
		}
	}
	g.set(dateUses, condition, now.Format(time.RFC3339))
	g.set(anyUse, d.Trigger.Since, now.Format(time.RFC3339))
	g.set(anyUse, key, "1234")
	for _, when := range steps {
		g.set(anyUse, when, later)
	}
	for _, text := range append([]string{condition}, texts...) {
		g.set(anyUse, text, "sample")
	}
	return g
}

// set gives the fields of an expression that a pattern matches a value, unless they have one.
func (g *guessedEvent) set(use *regexp.Regexp, expression string, value any) {
	for _, read := range use.FindAllStringSubmatch(expression, -1) {
		for _, field := range read[1:] {
			g.add(field, value)
		}
	}
}

// add gives a field a value, unless it has one.
func (g *guessedEvent) add(field string, value any) {
	path := strings.TrimPrefix(strings.ReplaceAll(field, "?", ""), ".")
	if _, known := g.values[path]; path != "" && !known {
		g.paths, g.values[path] = append(g.paths, path), value
	}
}

// compare gives the fields that a condition compares with literals values for which the comparison is true.
func (g *guessedEvent) compare(condition string) {
	for _, found := range comparisons.FindAllStringSubmatch(condition, -1) {
		field, operator, literal := found[1], found[2], found[3]
		number, err := strconv.ParseFloat(literal, 64)
		switch {
		case literal == "true" || literal == "false":
			g.add(field, literal == "true")
		case err != nil:
			g.add(field, literal[1:len(literal)-1])
		case operator == ">":
			g.add(field, number+1)
		case operator == "<":
			g.add(field, number-1)
		default:
			g.add(field, number)
		}
	}
}

// with returns the text of the event with another value of a field; an empty path changes none.
func (g *guessedEvent) with(path string, value any, shape document.Shape, now time.Time) string {
	body := map[string]any{}
	for _, p := range g.paths {
		v := g.values[p]
		if p == path {
			v = value
		}
		placeField(body, strings.Split(p, "."), v)
	}
	fitShape(body, shape, now)
	text, err := json.Marshal(body)
	if err != nil || len(body) == 0 {
		return `{"id": "1234"}`
	}
	return indented(text)
}

// placeField sets a field of an event. A field that is read as a value and has fields, too, is an object.
func placeField(body map[string]any, names []string, value any) {
	last, at := len(names)-1, body
	for _, name := range names[:last] {
		inner, is := at[name].(map[string]any)
		if !is {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	if _, is := at[names[last]].(map[string]any); !is {
		at[names[last]] = value
	}
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

// sampleEvent makes up an event for a rule. The rule may refuse it; see startingEvent.
func sampleEvent(d document.Document, key string) string {
	now := time.Now().UTC()
	return guessEvent(d, key, now).with("", nil, triggerShape(d), now)
}

func triggerShape(d document.Document) document.Shape {
	if d.Trigger.Heartbeat != nil {
		return d.Trigger.Heartbeat.Shape
	}
	return d.Trigger.Shape
}

// maxGuessedPreviews bounds the previews that search for an event that starts a job of a rule.
const maxGuessedPreviews = 16

// startingEvent makes up an event on the trigger's subject that starts a job of a saved rule, as its preview shows. It
// tries other kinds of values, one field at a time. It returns an empty text if the rule accepts none of the events.
func (c client) startingEvent(d document.Document, now time.Time) (string, error) {
	guess, shape := guessEvent(d, d.Trigger.KeyExpression(), now), triggerShape(d)
	tried := []string{guess.with("", nil, shape, now)}
	for _, value := range []any{1, now.Format(time.RFC3339), true, "1234", map[string]any{}} {
		for _, path := range slices.Backward(guess.paths) {
			tried = append(tried, guess.with(path, value, shape, now))
		}
	}
	for _, event := range tried[:min(len(tried), maxGuessedPreviews)] {
		if starts, err := c.startsJob(d, event, now); starts || err != nil {
			return event, err
		}
	}
	return "", nil
}

// startsJob reports whether an event on the trigger's subject starts a job of a saved rule. The preview ends before the
// first check: it queries no source.
func (c client) startsJob(d document.Document, event string, now time.Time) (bool, error) {
	request := web.PreviewRequest{Event: web.PreviewEvent{
		Subject: web.Identifier(withoutWildcards(d.Trigger.Subject())), At: now, Data: json.RawMessage(event),
	}, Until: now}
	var preview rules.Preview
	var refusal *web.Problem
	err := c.do(http.MethodPost, rulePath(d.Name)+"/preview", nil, request, &preview)
	switch {
	case errors.As(err, &refusal): // the rule has no preview, or too many other ones are in progress
		return false, nil
	case err != nil:
		return false, fmt.Errorf("event of rule %s: %w", d.Name, err)
	}
	return preview.Key != "" && len(preview.Refusals) == 0, nil
}
