package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"deadman/internal/configfile"
)

// Shape is the type of an event's data: the form of each field, by name.
type Shape map[string]Form

// Form is the type of one field of an event.
type Form struct {
	Kind   Kind
	Fields Shape // of an object, if they are known
	Items  *Form // of a list, if it is known
}

// Kind is a kind of values.
type Kind string

// The kinds of values of an event.
const (
	Text    Kind = "text"
	Number  Kind = "number"
	Boolean Kind = "boolean"
	Time    Kind = "time" // text or seconds since 1970, for date(…)
	Object  Kind = "object"
	List    Kind = "list"
	Any     Kind = "any"
)

var kinds = []string{string(Text), string(Number), string(Boolean), string(Time), string(Object), string(List), string(Any)}

// Describe returns the kind in a sentence.
func (k Kind) Describe() string {
	switch k {
	case Number:
		return "a number"
	case Boolean:
		return "true or false"
	case Time:
		return "a time"
	case Object:
		return "an object"
	case List:
		return "a list"
	}
	return string(k)
}

// Fits reports whether a value of kind k can be used as other. A time is text or a number.
func (k Kind) Fits(other Kind) bool {
	if k == "" || other == "" || k == Any || other == Any || k == other {
		return true
	}
	scalar := []Kind{Text, Number, Time}
	return (k == Time || other == Time) && slices.Contains(scalar, k) && slices.Contains(scalar, other)
}

// MarshalJSON writes a kind, a mapping of fields, or a list of one.
func (f Form) MarshalJSON() ([]byte, error) {
	switch {
	case f.Fields != nil:
		return json.Marshal(f.Fields)
	case f.Items != nil:
		return json.Marshal([]Form{*f.Items})
	}
	return json.Marshal(f.Kind)
}

var errForm = errors.New("a shape is a kind, a mapping of fields, or a list of one")

// UnmarshalJSON reads the form that MarshalJSON writes.
func (f *Form) UnmarshalJSON(b []byte) error {
	switch {
	case strings.HasPrefix(string(b), "{"):
		f.Kind = Object
		return json.Unmarshal(b, &f.Fields)
	case strings.HasPrefix(string(b), "["):
		var items []Form
		if err := json.Unmarshal(b, &items); err != nil {
			return err
		}
		if len(items) != 1 {
			return errForm
		}
		f.Kind, f.Items = List, &items[0]
		return nil
	}
	return json.Unmarshal(b, &f.Kind)
}

// read reads a mapping of fields.
func (s *Shape) read(r *reader, n node, pointer string) {
	if n.kind != aMapping {
		r.problem(pointer, "expected a mapping of field names to kinds, not %s; write: shape: {id: text, total: number}", n.kind)
		return
	}
	if len(n.fields) == 0 {
		r.problem(pointer, "the shape is empty; remove it, or write object for an object with any fields")
		return
	}
	*s = make(Shape)
	r.each(n, pointer, func(f field, p string) {
		var form Form
		form.read(r, f.value, p)
		(*s)[f.name] = form
	})
}

func (f *Form) read(r *reader, n node, pointer string) {
	switch {
	case n.kind == aMapping:
		f.Kind = Object
		f.Fields.read(r, n, pointer)
	case n.kind == aSequence && len(n.items) == 1:
		f.Kind, f.Items = List, new(Form)
		f.Items.read(r, n.items[0], r.item(pointer, 0, n.items[0]))
	case n.kind == aSequence:
		r.problem(pointer, "a list in a shape has one item, the kind of its items; write [text], or list for items of any kind")
	case n.kind == aNull:
		r.problem(pointer, "the field has no value; set one or remove the field")
	case n.kind == aText && slices.Contains(kinds, n.text):
		r.places[pointer] = n.place
		f.Kind = Kind(n.text)
	default:
		r.places[pointer] = n.place
		r.problem(pointer, "%s", configfile.NotOneOf("a kind", n.text, kinds))
	}
}

// Each represents an item of a list in a path.
const Each = "[]"

// KindAt returns the kind that the form has at a path. known is false if the form does not declare it; a path to a field
// that it does not have is an error.
func (f Form) KindAt(path []string) (kind Kind, known bool, err error) {
	if len(path) == 0 {
		return f.Kind, f.Kind != Any, nil
	}
	name, rest := path[0], path[1:]
	switch {
	case f.Kind == Any, f.Kind == Object && f.Fields == nil, f.Kind == List && f.Items == nil:
		return "", false, nil
	case name == Each && f.Kind == List:
		return f.Items.KindAt(rest)
	case name == Each || f.Kind != Object:
		return "", false, nil // a value used as a list or an object is compared by its parts
	}
	field, ok := f.Fields[name]
	if !ok {
		known := slices.Sorted(maps.Keys(f.Fields))
		if near := configfile.Suggest(name, known); near != "" {
			return "", false, fmt.Errorf("no field %q; did you mean %q?", configfile.Truncate(name, 40), near)
		}
		return "", false, fmt.Errorf("no field %q, only %s", configfile.Truncate(name, 40), configfile.Truncate(strings.Join(known, ", "), 200))
	}
	return field.KindAt(rest)
}
