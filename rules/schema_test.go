package rules_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"deadman/rules/document"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"deadman/rules"
)

// schema returns Schema, as a validator.
func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := document.Schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("rule.json", parsed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("rule.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// decodeYAML returns a YAML text as a validator takes it.
func decodeYAML(t *testing.T, text string) any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchemaTakesRules checks that an editor marks nothing in a valid rule.
func TestSchemaTakesRules(t *testing.T) {
	s := schema(t)
	texts := map[string]string{"own calendars": ownRule}
	for _, c := range goodDocuments {
		texts[c.name] = c.text
	}
	files, err := filepath.Glob("../examples/*/*.yaml")
	files = slices.DeleteFunc(files, rules.IsTestFile)
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(text)
	}
	for _, page := range rulePages(t) {
		for _, block := range fence.FindAllStringSubmatch(page, -1) {
			texts["docs: "+block[1]] = completeRule(block[1] + "\n")
		}
	}
	for name, text := range texts {
		documents, err := rules.Parse([]byte(text), "")
		if err != nil {
			continue // of a page that shows errors; other tests keep the pages correct
		}
		if err := s.Validate(decodeYAML(t, text)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		canonical, err := documents[0].Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(decodeYAML(t, string(canonical))); err != nil {
			t.Errorf("%s, canonical: %v\n%s", name, err, canonical)
		}
	}
}

// TestSchemaRefuses checks the errors that an editor can detect without the meaning of a rule.
func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	for _, text := range []string{
		"name: late", withoutField("name"), withoutField("entity"), withoutField("trigger"),
		withEdits("colour: red"), withEdits("name: Late"), withEdits("name: 5"), withEdits("entity: a b"), withEdits("enabled: 1"),
		withEdits("trigger: {event: a, key: event.id, query: x}"), withEdits("trigger: orders.created"), withEdits("trigger: {key: event.id}"),
		withEdits("trigger: {event: a, key: event.id, schedule: '@daily'}"), withEdits("trigger: {event: a, key: ''}"),
		withEdits("trigger: {event: a, key: event.id, shape: {a: varchar}}"), withEdits("trigger: {event: a, key: event.id, shape: {a: [text, text]}}"),
		withEdits("trigger: {heartbeat: {event: a, key: event.id}}"), withEdits("trigger: {schedule: '@daily', keys: []}"),
		withEdits("update: []"), withEdits("update: {event: a, key: event.id, as: x}"), withEdits("resolve: {event: a}"), withEdits("resolve: [{event: a, key: event.id, need: 0}]"),
		withEdits("lookup: {}"), withEdits("lookup: {sql: {source: shop}}"), withEdits("lookup: {sql: {source: s, query: q}, kv: {source: s, bucket: b}}"),
		withEdits("lookup: {http: {source: s, path: /a, absent: [200]}}"), withEdits("while: 5"),
		withEdits("escalate: {after: 3h}"), withEdits("escalate: [{step: a}]"), withEdits("escalate: [{after: 3h, at: since}]"), withEdits("escalate: [{after: 3}]"),
		withEdits("escalate: [{after: -3h}]"), withEdits("escalate: [{after: 1h, severity: loud}]"), withEdits("escalate: [{every: 1h, times: 1001}]"),
		withEdits("escalate: [{every: soon, times: 3}]"), withEdits("slot: 15"), withEdits("slot: 15x"), withEdits("again: later"), withEdits("catch_up: {do: nothing}"), withEdits("catch_up: skip"),
		withEdits("guards: {attempts: 0}"), withEdits("guards: {attempts: 101}"), withEdits("guards: {tries: 3}"), withEdits("labels: {a b: c}"), withEdits("keep: 7d"), withEdits("keep: {outcomes: {}}"), withEdits("keep: {outcomes: {Resolved: 7d}}"), withEdits("labels: {a: 1}"),
		ownBegin + "calendars: {}\n" + ownSteps, ownBegin + "calendars: {office: {}}\n" + ownSteps, ownBegin + "calendars: {office: {zone: UTC, days: 5}}\n" + ownSteps,
		strings.Replace(ownRule, "09:00-15:00", "nine to three", 1), strings.Replace(ownRule, "    hours:", "    open:", 1),
	} {
		if err := s.Validate(decodeYAML(t, text)); err == nil {
			t.Errorf("the schema takes\n%s", text)
		}
		if problems := problemsOf(t, text); problems == nil {
			t.Errorf("Parse takes\n%s", text)
		}
	}
}

// TestSchemaHelps checks that an editor can describe each field, and show the defaults of the first ones.
func TestSchemaHelps(t *testing.T) {
	text, err := document.Schema()
	if err != nil {
		t.Fatal(err)
	}
	type described struct {
		Description string
		Default     any
		Properties  map[string]described
		Definitions map[string]described `json:"$defs"`
	}
	var s described
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	s.Definitions["the rule"] = described{Properties: s.Properties}
	for name, d := range s.Definitions {
		for field, p := range d.Properties {
			if !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s.%s is described as %q", name, field, p.Description)
			}
		}
		if len(d.Properties) == 0 && name != "form" {
			t.Errorf("%s has no fields", name)
		}
	}
	for field, want := range map[string]any{"enabled": true, "slot": "1m", "hold": "7d", "early": "1h", "again": "keep"} {
		if got := s.Properties[field].Default; got != want {
			t.Errorf("the default of %s is %v, want %v", field, got, want)
		}
	}
}
