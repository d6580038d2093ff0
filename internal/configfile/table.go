package configfile

import (
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// Table has the fields of a mapping. Value.In reads a mapping by its table, and Object describes it, so that the reader and
// the schema have the same fields.
type Table []Field

// Field is a field that a mapping may have.
type Field struct {
	Name     string
	Form     *jsonschema.Schema // of its value
	Text     string             // its description, for editors
	Required bool               // for the schema; the reader calls Value.Require
}

// In returns the values of a mapping by field name, as Fields does.
func (v Value) In(t Table) map[string]Value { return v.Fields(t.Names()...) }

// Names returns the names of the fields in their order.
func (t Table) Names() []string {
	names := make([]string, len(t))
	for i, f := range t {
		names[i] = f.Name
	}
	return names
}

// Object returns the form of a mapping with the fields of t. oneOf names fields of which it has exactly one; nil: any.
func (t Table) Object(oneOf ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, f := range t {
		value := *f.Form
		value.Description = f.Text
		s.Properties.Set(f.Name, &value)
		if f.Required {
			s.Required = append(s.Required, f.Name)
		}
	}
	for _, name := range oneOf {
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{name}})
	}
	return s
}

// Schema returns the JSON Schema (2020-12) of a file. The name is that of the schema, and the title describes the file.
func Schema(form *jsonschema.Schema, name, title string) ([]byte, error) {
	s := *form
	s.Version, s.ID, s.Title = jsonschema.Version, jsonschema.ID("urn:deadman:schema:"+name), title
	return json.MarshalIndent(&s, "", "  ")
}
