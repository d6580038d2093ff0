// Package bodies holds the data of events and the states of jobs: it bounds and checks their JSON, decodes the fields that
// an expression reads, and merges updates and the results of lookups into a state.
package bodies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// MaxBytes is the size limit of an event's data and of a job's state.
const MaxBytes = 256 << 10

// maxDepth is the limit of nested lists and objects.
const maxDepth = 64

// Body is the data of an event, decoded as far as expressions read it. Of names that occur twice in an object the last
// counts. It is not safe for concurrent use.
type Body struct {
	data    []byte
	checked bool
	kept    bool  // it comes from a job's row
	err     error // why it cannot be read
	numbers view  // with numbers to count with
	texts   view  // with numbers as they were written

	under *Body // the state before a source found data; nil: no source was queried
	gone  bool  // a source was queried, and the entity does not exist
}

// view is the decoded part of a body: all of it, or some fields if it is an object.
type view struct {
	whole any // nil: not decoded, or null
	part  map[string]any
	read  []string // the fields that were searched for; the existing ones are in part
}

// Part is the part of a body that an expression reads. Decoding is most of a condition's cost, so nothing else is
// decoded.
type Part struct {
	Whole  bool     // more than named fields
	Fields []string // of the outermost object
}

// Forget releases the decoded values. They are decoded again when needed.
func (b *Body) Forget() { b.numbers, b.texts = view{}, view{} }

// New returns the body of an event. It is checked when it is first read.
func New(data []byte) *Body { return &Body{data: data} }

// Stored returns the body of a job. It was checked when the job stored it: to do so at each check would double the
// cost of its use.
func Stored(data []byte) *Body {
	b := &Body{data: data, checked: true, kept: true}
	if len(data) == 0 {
		b.err = errNoBody
	}
	return b
}

// Size returns the size in bytes, with that of the state below the result of a lookup. A nil body has none.
func (b *Body) Size() int {
	if b == nil {
		return 0
	}
	return len(b.data) + b.under.Size()
}

// JSON returns the body if it is JSON that a job can store, and nil otherwise.
func (b *Body) JSON() json.RawMessage {
	if b.Check() != nil {
		return nil
	}
	return b.data
}

// Check returns why the body cannot be read; nil: it can. The first call decides.
func (b *Body) Check() error {
	if !b.checked {
		b.checked, b.err = true, Check(b.data)
	}
	return b.err
}

var (
	errNoBody  = errors.New("the event has no body")
	errNotJSON = errors.New("the body is not JSON")
)

// Check returns why data cannot be the body of an event: it is empty, exceeds MaxBytes, is nested too deep, or is no
// JSON in UTF-8.
func Check(data []byte) error {
	switch {
	case len(data) == 0:
		return errNoBody
	case len(data) > MaxBytes:
		return fmt.Errorf("the body has %d bytes, the most is %d", len(data), MaxBytes)
	case !utf8.Valid(data):
		return errors.New("the body is not UTF-8 text")
	case deeper(data, maxDepth):
		return fmt.Errorf("the body is nested deeper than %d levels", maxDepth)
	case !json.Valid(data):
		return errNotJSON
	}
	return nil
}

// deeper reports whether brackets outside of text are nested deeper than most.
func deeper(data []byte, most int) bool {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth > most {
			return true
		}
	}
	return false
}

// Value returns the part of the body that an expression reads: its numbers to count with, or literally.
func (b *Body) Value(literal bool, read Part) (v any, err error) {
	if b != nil && b.kept {
		defer func() {
			if recover() != nil { // an operator changed the row by hand
				v, err = nil, errNotJSON
			}
		}()
	}
	switch {
	case b == nil:
		return nil, errNoBody
	case b.gone:
		return map[string]any(nil), nil // equal to nil, and every field of it is missing
	}
	known := &b.numbers
	if literal {
		known = &b.texts
	}
	if known.whole != nil {
		return known.whole, nil
	}
	if b.under != nil {
		v, err := b.mergedValue(literal)
		known.whole = v
		return v, err
	}
	if err := b.Check(); err != nil {
		return nil, err
	}
	d := decoder{data: b.data, literal: literal}
	if d.space(); !read.Whole && d.data[d.at] == '{' {
		return known.fields(&d, read.Fields)
	}
	v, err = d.value()
	known.whole = v
	return v, err
}

// Unread returns how many bytes Value has to decode.
func (b *Body) Unread(literal bool, read Part) int {
	if b == nil || b.gone {
		return 0
	}
	known := &b.numbers
	if literal {
		known = &b.texts
	}
	if known.whole != nil || !read.Whole && known.part != nil && known.had(read.Fields) {
		return 0
	}
	return b.Size()
}

// had reports whether all of the fields were searched for before.
func (v *view) had(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(v.read, name) })
}

// fields decodes the fields that were not searched for before.
func (v *view) fields(d *decoder, names []string) (map[string]any, error) {
	was := func(name string) bool { return slices.Contains(v.read, name) }
	if v.part == nil {
		v.part = make(map[string]any, len(names))
	} else if v.had(names) {
		return v.part, nil
	}
	unread := names
	if len(v.read) > 0 {
		unread = slices.DeleteFunc(slices.Clone(names), was)
	}
	if err := d.fields(unread, v.part); err != nil {
		return nil, err
	}
	if v.read == nil {
		v.read = slices.Clip(unread)
	} else {
		v.read = append(v.read, unread...)
	}
	return v.part, nil
}

// WithFound returns the state after a query to a source: the data that it found, merged over the state before as a
// JSON merge patch (RFC 7396). nil: the entity does not exist, and the state is empty.
func (b *Body) WithFound(found json.RawMessage) *Body {
	if found == nil {
		return &Body{gone: true}
	}
	return &Body{data: found, under: b}
}

var errFoundNoObject = errors.New("the result of the source is not an object")

// CheckFound returns why the data that a source found is invalid.
func (b *Body) CheckFound() error {
	if err := b.Check(); err != nil {
		return fmt.Errorf("the result of the source is invalid: %w", err)
	}
	if !IsObject(b.data) {
		return errFoundNoObject
	}
	return nil
}

// mergedValue is Value for a body that is merged over another.
func (b *Body) mergedValue(literal bool) (any, error) {
	if err := b.CheckFound(); err != nil {
		return nil, err
	}
	var known any
	if b.under.Size() > 0 {
		var err error
		if known, err = b.under.Value(literal, Part{Whole: true}); err != nil {
			return nil, err
		}
	}
	d := decoder{data: b.data, literal: literal}
	patch, err := d.value()
	if err != nil {
		return nil, err
	}
	return patchValue(known, patch), nil
}

// patchValue is Patch for decoded JSON. It does not change known.
func patchValue(known, patch any) any {
	changes, is := patch.(map[string]any)
	if !is {
		return patch
	}
	before, _ := known.(map[string]any)
	fields := make(map[string]any, len(before)+len(changes))
	maps.Copy(fields, before)
	for name, change := range changes {
		if change == nil {
			delete(fields, name)
			continue
		}
		fields[name] = patchValue(fields[name], change)
	}
	return fields
}

// Merged returns the body as JSON; null if the entity does not exist.
func (b *Body) Merged() (json.RawMessage, error) {
	switch {
	case b.gone:
		return json.RawMessage("null"), nil
	case b.under == nil:
		return b.data, nil
	}
	if err := b.CheckFound(); err != nil {
		return nil, err
	}
	return Patch(b.under.data, b.data)
}
