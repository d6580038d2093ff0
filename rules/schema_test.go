package rules_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
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

// valued returns a YAML text as a validator takes it.
func valued(t *testing.T, text string) any {
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
	texts := make(map[string]string)
	for _, c := range goodDocuments {
		texts[c.name] = c.text
	}
	files, err := filepath.Glob("../examples/*/*.yaml")
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
			texts["docs: "+block[1]] = whole(block[1] + "\n")
		}
	}
	for name, text := range texts {
		documents, err := rules.Parse([]byte(text), "")
		if err != nil {
			continue // of a page that shows errors; other tests keep the pages correct
		}
		if err := s.Validate(valued(t, text)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		canonical, err := documents[0].Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(valued(t, string(canonical))); err != nil {
			t.Errorf("%s, canonical: %v\n%s", name, err, canonical)
		}
	}
}

// TestSchemaRefuses checks the errors that an editor can detect without the meaning of a rule.
func TestSchemaRefuses(t *testing.T) {
	s := schema(t)
	for _, text := range []string{
		"name: late", without("name"), without("entity"), without("trigger"),
		edited("colour: red"), edited("name: Late"), edited("name: 5"), edited("entity: a b"), edited("enabled: 1"),
		edited("trigger: {event: a, key: event.id, query: x}"), edited("trigger: orders.created"), edited("trigger: {key: event.id}"),
		edited("trigger: {event: a, key: event.id, schedule: '@daily'}"), edited("trigger: {event: a, key: ''}"),
		edited("trigger: {event: a, key: event.id, shape: {a: varchar}}"), edited("trigger: {event: a, key: event.id, shape: {a: [text, text]}}"),
		edited("trigger: {heartbeat: {event: a, key: event.id}}"), edited("trigger: {schedule: '@daily', keys: []}"),
		edited("update: []"), edited("update: {event: a, key: event.id, as: x}"), edited("resolve: {event: a}"), edited("resolve: [{event: a, key: event.id, need: 0}]"),
		edited("lookup: {}"), edited("lookup: {sql: {source: shop}}"), edited("lookup: {sql: {source: s, query: q}, kv: {source: s, bucket: b}}"),
		edited("lookup: {http: {source: s, path: /a, absent: [200]}}"), edited("while: 5"),
		edited("escalate: {after: 3h}"), edited("escalate: [{step: a}]"), edited("escalate: [{after: 3h, at: since}]"), edited("escalate: [{after: 3}]"),
		edited("escalate: [{after: -3h}]"), edited("escalate: [{after: 1h, severity: loud}]"), edited("escalate: [{every: 1h, times: 1001}]"),
		edited("escalate: [{every: soon, times: 3}]"), edited("slot: 15"), edited("slot: 15x"), edited("again: later"), edited("catch_up: {do: nothing}"), edited("catch_up: skip"),
		edited("guards: {attempts: 0}"), edited("guards: {attempts: 101}"), edited("guards: {tries: 3}"), edited("labels: {a b: c}"), edited("labels: {a: 1}"),
	} {
		if err := s.Validate(valued(t, text)); err == nil {
			t.Errorf("the schema takes\n%s", text)
		}
		if problems := found(t, text); problems == nil {
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
