package ruletest

import (
	"encoding/json"

	"github.com/invopop/jsonschema"

	"deadman/internal/configfile"
)

// fieldTable has the fields of a mapping in a file of tests. The reader, the schema and the reference use it.
type fieldTable []field

// field is one field.
type field struct {
	name     string
	text     string     // its description, for the schema
	kind     string     // of its value, for the schema
	of       fieldTable // of the mappings in a list
	words    []string   // the values that it may have; nil: any
	required bool
}

// Kinds of values.
const (
	textKind    = "text"
	textsKind   = "texts"
	momentKind  = "moment"
	listKind    = "list"
	anyKind     = "any"
	flagKind    = "flag"
	numberKind  = "number"
	mappingKind = "mapping" // of names to texts
)

var fileFields = fieldTable{
	{name: "rules", kind: textsKind, text: "Files of the rules, relative to this file. Default: NAME.yaml for NAME.test.yaml."},
	{name: "calendars", kind: textKind, text: "File of the calendars that the rules use, relative to this file. Default: the file of --calendars."},
	{name: "tests", kind: listKind, of: testFields, required: true, text: "The tests."},
}

var testFields = fieldTable{
	{name: "name", kind: textKind, required: true, text: "What the rules do in this test. Each test of a file has its own name."},
	{name: "start", kind: textKind, text: "Start of the test: the rules count as saved then. Default: 2026-03-02T10:00:00Z, a Monday."},
	{name: "events", kind: listKind, of: eventFields, text: "Events and pings, played in the order of their times."},
	{name: "lookups", kind: anyKind, text: "Answers of sources to lookups, as in a file of replay --lookups. The times in from are those of the test."},
	{name: "until", kind: momentKind, text: "End of the test. Default: the end of all jobs. Required for a rule with a schedule or a heartbeat."},
	{name: "partial", kind: flagKind, text: "If true, further alerts, outcomes and dead letters are allowed between the expected ones. Default: false."},
	{name: "alerts", kind: listKind, of: alertFields, text: "All alerts, in the order in which they are raised. An empty list: the rules are silent."},
	{name: "outcomes", kind: listKind, of: outcomeFields, text: "The outcome of each job, in the order of their ends; then the jobs that are pending at the end of the test."},
	{name: "dead_letters", kind: listKind, of: letterFields, text: "Events that a rule refuses. Default: none, so that a refused event fails the test."},
}

var eventFields = fieldTable{
	{name: "at", kind: momentKind, required: true, text: "Time of the event: a duration since the start, or a date."},
	{name: "subject", kind: textKind, text: "Subject of the event."},
	{name: "data", kind: anyKind, text: "Body of the event: any value, as JSON."},
	{name: "ping", kind: textKind, text: "Key of a heartbeat that sends a ping, in place of subject and data."},
	{name: "rule", kind: textKind, text: "Rule of the ping. Default: the only rule with a heartbeat."},
	{name: "kind", kind: textKind, words: pingKinds, text: "Kind of the ping. Default: success."},
	{name: "exit", kind: numberKind, text: "Exit status that the ping reports."},
	{name: "run", kind: textKind, text: "Run that the ping belongs to."},
	{name: "body", kind: textKind, text: "Further text of the ping."},
}

var alertFields = fieldTable{
	{name: "at", kind: momentKind, text: "Time of the alert: the slot of its check, or the time of the event that resolves it."},
	{name: "rule", kind: textKind, text: "Name of the rule."},
	{name: "key", kind: textKind, text: "Key of the job."},
	{name: "step", kind: textKind, text: "Name of the step."},
	{name: "status", kind: textKind, words: statuses, text: "Status of the alert."},
	{name: "severity", kind: textKind, words: severities, text: "Severity of the alert."},
	{name: "text", kind: textKind, text: "Text of the alert."},
	{name: "contains", kind: textKind, text: "Part of the text of the alert."},
	{name: "labels", kind: mappingKind, text: "Some of the labels of the alert."},
	{name: "skipped_steps", kind: textsKind, text: "Steps that were due at the same check and are skipped."},
}

var outcomeFields = fieldTable{
	{name: "at", kind: momentKind, text: "Time of the end of the job. A pending job has none."},
	{name: "rule", kind: textKind, text: "Name of the rule."},
	{name: "key", kind: textKind, text: "Key of the job."},
	{name: "outcome", kind: textKind, text: "Outcome of the job: resolved, cleared, exhausted, the outcome of a resolve (as), or pending."},
	{name: "reason", kind: textKind, text: "Part of the reason of the outcome."},
}

var letterFields = fieldTable{
	{name: "at", kind: momentKind, text: "Time of the event."},
	{name: "rule", kind: textKind, text: "Name of the rule that refuses it."},
	{name: "subject", kind: textKind, text: "Subject of the event."},
	{name: "reason", kind: textKind, text: "Part of the reason."},
}

func (t fieldTable) names() []string {
	names := make([]string, len(t))
	for i, f := range t {
		names[i] = f.name
	}
	return names
}

// of returns the fields of a mapping in a file.
func (t fieldTable) of(v configfile.Value) map[string]configfile.Value { return v.Fields(t.names()...) }

// Schema returns the JSON Schema (2020-12) of a file of tests, for editors.
func Schema() ([]byte, error) {
	s := fileFields.schema()
	s.Version, s.ID, s.Title = jsonschema.Version, "urn:deadman:schema:rule-test", "Tests of deadman rules"
	return json.MarshalIndent(s, "", "  ")
}

func (t fieldTable) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range t {
		value := f.schema()
		value.Description = f.text
		s.Properties.Set(f.name, value)
		if f.required {
			s.Required = append(s.Required, f.name)
		}
	}
	return s
}

func (f field) schema() *jsonschema.Schema {
	text := func() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
	switch f.kind {
	case listKind:
		return &jsonschema.Schema{Type: "array", Items: f.of.schema()}
	case textsKind:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text(), {Type: "array", Items: text(), MinItems: new(uint64(1))}}}
	case momentKind:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text(), {Type: "integer", Enum: []any{0}}}}
	case anyKind:
		return &jsonschema.Schema{}
	case flagKind:
		return &jsonschema.Schema{Type: "boolean"}
	case numberKind:
		return &jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: "255"}
	case mappingKind:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: text()}
	}
	s := text()
	for _, word := range f.words {
		s.Enum = append(s.Enum, word)
	}
	return s
}
