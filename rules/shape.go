package rules

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

// describe returns the kind in a sentence.
func (k Kind) describe() string {
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

// fits reports whether a value of kind k can be used as other. A time is text or a number.
func (k Kind) fits(other Kind) bool {
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
		r.problem(pointer, "%s", notOneOf("a kind", n.text, kinds))
	}
}

// at returns the kind that the form has at a path. known is false if the form does not declare it; a path to a field
// that it does not have is an error.
func (f Form) at(path []string) (kind Kind, known bool, err error) {
	if len(path) == 0 {
		return f.Kind, f.Kind != Any, nil
	}
	name, rest := path[0], path[1:]
	switch {
	case f.Kind == Any, f.Kind == Object && f.Fields == nil, f.Kind == List && f.Items == nil:
		return "", false, nil
	case name == each && f.Kind == List:
		return f.Items.at(rest)
	case name == each || f.Kind != Object:
		return "", false, nil // a value used as a list or an object is compared by its parts
	}
	field, ok := f.Fields[name]
	if !ok {
		known := slices.Sorted(maps.Keys(f.Fields))
		if near := configfile.Suggest(name, known); near != "" {
			return "", false, fmt.Errorf("no field %q; did you mean %q?", clip(name, 40), near)
		}
		return "", false, fmt.Errorf("no field %q, only %s", clip(name, 40), clip(strings.Join(known, ", "), 200))
	}
	return field.at(rest)
}

// reading is a use, with its place.
type reading struct {
	fieldUse
	subject string // of the event that is read; empty: it is the state
	pointer string
}

// declared is a shape, with its place.
type declared struct {
	Shape
	pointer string
}

// shapes compares the assumed kind of each field with its declaration and with its other uses. The state consists of
// the data of the trigger and the updates, with the result of a lookup merged over it; if the columns of that are
// unknown, it may be any value.
type shapes struct {
	*compiler
	declared map[string]declared // by subject
	merged   []string            // the subjects that make the state
	under    []string            // the subjects that make the state below the result of a lookup
	first    map[string]reading  // the first use of each field, by group and path
}

// stateful returns the subjects of the events that are merged into the state.
func stateful(watched []watched) []string {
	var all []string
	for _, w := range watched {
		if w.merged {
			all = append(all, w.subject)
		}
	}
	return all
}

func (s *shapes) declare(watched []watched) {
	for _, w := range watched {
		before, twice := s.declared[w.subject]
		switch {
		case w.shape == nil || w.subject == "":
		case twice && !sameShape(before.Shape, w.shape):
			s.problem(w.pointer+"/shape", "the shape differs from that of the same event at %s; declare it once", fieldOf(before.pointer))
		case !twice:
			s.declared[w.subject] = declared{w.shape, w.pointer}
		}
	}
}

func sameShape(a, b Shape) bool {
	return maps.EqualFunc(a, b, func(a, b Form) bool {
		x, errX := json.Marshal(a)
		y, errY := json.Marshal(b)
		return errX == nil && errY == nil && string(x) == string(y)
	})
}

// loose returns the fields with a type test in an expression, or with a declaration of any value: they may be used as
// several kinds.
func (s *shapes) loose() map[string]bool {
	loose := make(map[string]bool)
	for _, r := range s.readings {
		if r.kind == Any {
			loose[s.place(r)] = true
		}
	}
	return loose
}

// place returns the key of the field that is read. Events that are merged into the state share theirs.
func (s *shapes) place(r reading) string {
	group := r.subject
	if slices.Contains(s.merged, group) {
		group = ""
	}
	return group + "\x00\x00" + r.key()
}

// fits compares a reading with the declared shapes, if any of them includes it. A field that no shape has is a problem
// if all events that it may come from are declared.
func (s *shapes) fits(r reading) (compared bool) {
	from := []string{r.subject}
	if r.state {
		from = s.merged
	}
	if r.state && s.beats != nil && len(r.path) > 0 && r.path[0] == heartbeatField {
		return s.beat(r)
	}
	if r.state && s.columns != nil && len(r.path) > 0 {
		return s.finds(r)
	}
	open := len(from) == 0 // an event without a declaration may have any field
	var missing error
	for _, subject := range from {
		shape, ok := s.declared[subject]
		if !ok {
			open = true
			continue
		}
		kind, known, err := Form{Kind: Object, Fields: shape.Shape}.at(r.path)
		if err != nil {
			missing = err
			continue
		}
		if known && !kind.fits(r.kind) {
			s.problem(r.pointer, "%s is used as %s here, but %s declares %s",
				r, r.kind.describe(), fieldOf(shape.pointer+"/shape"), kind.describe())
		}
		return true
	}
	if missing != nil && !open {
		s.problem(r.pointer, "%s: its shape has %v", r, missing)
	}
	return missing != nil && !open
}

// beat compares a reading of the state with the shape of the heartbeat in it.
func (s *shapes) beat(r reading) (compared bool) {
	kind, known, err := Form{Kind: Object, Fields: pulseShape}.at(r.path[1:])
	switch {
	case err != nil:
		s.problem(r.pointer, "%s: %s has %v", r, heartbeatField, err)
	case known && !kind.fits(r.kind):
		s.problem(r.pointer, "%s is used as %s here, but is %s", r, r.kind.describe(), kind.describe())
	}
	return true
}

// finds compares a reading of the state with the columns of the lookup, and with the data that they are merged over. A
// field in neither is a problem if all of the data is declared, or if its name looks like a typing error.
func (s *shapes) finds(r reading) (compared bool) {
	if _, found := s.columns[r.path[0]]; found {
		kind, known, err := Form{Kind: Object, Fields: s.columns}.at(r.path)
		if err == nil && known && !kind.fits(r.kind) {
			s.problem(r.pointer, "%s is used as %s here, but the lookup returns %s", r, r.kind.describe(), kind.describe())
		}
		return true
	}
	open := false
	for _, subject := range s.under {
		shape, known := s.declared[subject]
		if _, has := shape.Shape[r.path[0]]; has {
			return false
		}
		open = open || !known
	}
	columns := slices.Sorted(maps.Keys(s.columns))
	switch near := configfile.Suggest(r.path[0], columns); {
	case near != "" && !(open && s.carried(r.path[0])):
		s.problem(r.pointer, "%s: the lookup returns no %q; did you mean %q? (the field of the event is event.%s)",
			r, clip(r.path[0], 40), near, clip(r.path[0], 40))
	case !open:
		s.problem(r.pointer, "%s: the lookup returns no %q, only %s, and no event has it",
			r, clip(r.path[0], 40), clip(strings.Join(columns, ", "), 200))
	default:
		return false
	}
	return true
}

// carried reports whether the rule reads a field of that name of an event.
func (s *shapes) carried(name string) bool {
	return slices.ContainsFunc(s.readings, func(r reading) bool { return !r.state && len(r.path) > 0 && r.path[0] == name })
}

// agree compares a reading with the first one of the same field.
func (s *shapes) agree(r reading) {
	if r.kind == "" || len(r.path) == 0 {
		return
	}
	place := s.place(r)
	first, seen := s.first[place]
	switch {
	case !seen:
		s.first[place] = r
	case !first.kind.fits(r.kind) && first.pointer == r.pointer:
		s.problem(r.pointer, "%s is taken for %s and for %s; it can't be both%s", r, first.kind.describe(), r.kind.describe(), converted(first.kind, r.kind))
	case !first.kind.fits(r.kind):
		s.problem(r.pointer, "%s is taken for %s here and for %s in %s; it can't be both%s",
			r, r.kind.describe(), first.kind.describe(), fieldOf(first.pointer), converted(first.kind, r.kind))
	case first.kind == Time:
		s.first[place] = r
	}
}

// converted returns how to convert one kind to another, if that is possible.
func converted(a, b Kind) string {
	if a.fits(Time) && b.fits(Time) {
		return ", so convert one side with string(), int() or float()"
	}
	return ""
}

// fieldOf returns a pointer as people write it.
func fieldOf(pointer string) string { return Problem{Pointer: pointer}.Field() }
