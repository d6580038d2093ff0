package document

import (
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// durationPattern matches the spans that ParseDuration reads, except for the order of the units.
const durationPattern = `^(0|([0-9]+(y|w|d|h|m|s|ms))+)$`

// Schema returns the JSON Schema (2020-12) of the rule document, for editors. It is made of the table that documents
// are read by, so it has the same fields. It cannot express the checks of rules.Compile: whether an expression is valid, and
// whether the rule makes sense.
func Schema() ([]byte, error) {
	d := Document{}
	definitions := make(jsonschema.Definitions)
	s := d.fields().schema(definitions)
	s.Version = jsonschema.Version
	s.ID = "urn:deadman:schema:rule"
	s.Title = "A deadman rule"
	s.Definitions = definitions
	s.Examples = []any{example}
	if err := withDefaults(s); err != nil {
		return nil, err
	}
	return json.MarshalIndent(s, "", "  ")
}

// example is a rule to begin with.
var example = map[string]any{
	"name": "order-unshipped", "entity": "order",
	"trigger":  map[string]any{"event": "orders.created", "key": "event.id"},
	"resolve":  map[string]any{"event": "orders.shipped", "key": "event.id"},
	"escalate": []any{map[string]any{"after": "3h", "step": "primary"}},
}

// withDefaults adds the defaults of a document to its schema.
func withDefaults(s *jsonschema.Schema) error {
	d := New()
	d.CatchUp.After = DefaultCatchUp
	text, err := d.Canonical()
	if err != nil {
		return err
	}
	var defaults map[string]any
	if err := json.Unmarshal(text, &defaults); err != nil {
		return err
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		switch value := defaults[p.Key].(type) {
		case string, bool:
			if value != "" {
				p.Value.Default = value
			}
		}
	}
	return nil
}

func (v mapping) schema(d jsonschema.Definitions) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type: "object", Properties: jsonschema.NewProperties(),
		AdditionalProperties: jsonschema.FalseSchema, Required: v.required,
	}
	for _, e := range v.entries {
		field := e.value.schema(d)
		field.Description = e.schemaText
		s.Properties.Set(e.name, field)
	}
	for _, name := range v.either {
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{name}})
	}
	if v.name == "" {
		return s
	}
	d[v.name] = s
	return &jsonschema.Schema{Ref: "#/$defs/" + v.name}
}

func (s *Shape) schema(d jsonschema.Definitions) *jsonschema.Schema {
	const ref = "#/$defs/form"
	if d["form"] == nil {
		kind := &jsonschema.Schema{Type: "string"}
		for _, k := range kinds {
			kind.Enum = append(kind.Enum, k)
		}
		d["form"] = &jsonschema.Schema{
			Description: "Type of a field: a kind, an object with fields, or a list of one item type.",
			AnyOf: []*jsonschema.Schema{
				kind,
				{Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: ref}},
				{Type: "array", Items: &jsonschema.Schema{Ref: ref}, MinItems: new(uint64(1)), MaxItems: new(uint64(1))},
			},
		}
	}
	return &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: ref}}
}
