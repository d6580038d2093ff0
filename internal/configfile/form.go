package configfile

import (
	"encoding/json"
	"strconv"

	"github.com/invopop/jsonschema"
)

// DurationPattern matches the texts that ParseDuration reads, except for the order of the units.
const DurationPattern = `^(0|([0-9]+(y|w|d|h|m|s|ms))+)$`

// AnyForm is the form of any value.
func AnyForm() *jsonschema.Schema { return &jsonschema.Schema{} }

// RawTextForm is the form of text of any length, as Value.RawText reads it.
func RawTextForm() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }

// TextForm is the form of text, as Value.Text reads it.
func TextForm() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", MinLength: new(uint64(1)), MaxLength: new(uint64(maxText))}
}

// NameForm is the form of a name, as CheckName wants it.
func NameForm() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: namePattern.String()}
}

// PatternForm is the form of text that matches a regular expression.
func PatternForm(pattern string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: pattern}
}

// WordForm is the form of a text that is one of the words.
func WordForm[T ~string](words ...T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, word := range words {
		s.Enum = append(s.Enum, word)
	}
	return s
}

// BoolForm is the form of true and false.
func BoolForm() *jsonschema.Schema { return &jsonschema.Schema{Type: "boolean"} }

// TrueForm is the form of a value that is true.
func TrueForm() *jsonschema.Schema { return &jsonschema.Schema{Type: "boolean", Const: true} }

// NumberForm is the form of a whole number between two limits.
func NumberForm(least, most int) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: json.Number(strconv.Itoa(least)), Maximum: json.Number(strconv.Itoa(most))}
}

// DurationForm is the form of a duration, as Value.Duration reads it.
func DurationForm() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{PatternForm(DurationPattern), {Type: "integer", Enum: []any{0}}}}
}

// ListForm is the form of a list of up to most items, as Value.List reads it; most 0: any number.
func ListForm(item *jsonschema.Schema, most int) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "array", Items: item}
	if most > 0 {
		s.MaxItems = new(uint64(most))
	}
	return s
}

// OneOrListForm is the form of one item, or of a list of them, as Value.OneOrList reads it; most 0: any number.
func OneOrListForm(item *jsonschema.Schema, most int) *jsonschema.Schema {
	list := ListForm(item, most)
	list.MinItems = new(uint64(1))
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{item, list}}
}

// TextsForm is the form of texts, as Value.Texts reads them.
func TextsForm() *jsonschema.Schema {
	s := OneOrListForm(TextForm(), 0)
	s.AnyOf[1].UniqueItems = true
	return s
}

// EntriesForm is the form of a mapping whose names the author chooses, as Value.Entries reads it. most 0: any number.
func EntriesForm(entry *jsonschema.Schema, most int) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", AdditionalProperties: entry}
	if most > 0 {
		s.MaxProperties = new(uint64(most))
	}
	return s
}

// NamedForm is the form of a mapping of up to most names, as CheckName wants them.
func NamedForm(entry *jsonschema.Schema, most int) *jsonschema.Schema {
	s := EntriesForm(entry, most)
	s.PropertyNames = &jsonschema.Schema{Pattern: namePattern.String()}
	return s
}

// HeadersForm is the form of headers, as ReadHeaders reads them.
func HeadersForm(header *jsonschema.Schema) *jsonschema.Schema {
	s := EntriesForm(header, maxHeaders)
	s.PropertyNames = &jsonschema.Schema{Pattern: headerName.String()}
	return s
}
