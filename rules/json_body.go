package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Bounds of the data of an event.
const (
	MaxBody  = 256 << 10 // bytes
	maxDepth = 64        // levels of JSON
)

// body is the data of an event, decoded as far as expressions read it. Of names that occur twice in an object the last
// counts. It is not safe for concurrent use.
type body struct {
	data    []byte
	checked bool
	kept    bool  // it comes from a job's row
	err     error // why it cannot be read
	numbers view  // with numbers to count with
	texts   view  // with numbers as they were written

	// spend is the budget of the expressions that read the stored data of a job; for other bodies it is empty.
	spend budget

	under *body // the state before a source found data; nil: no source was queried
	gone  bool  // a source was queried, and the entity does not exist
}

// view is the decoded part of a body: all of it, or some fields if it is an object.
type view struct {
	whole any // nil: not decoded, or null
	part  map[string]any
	read  []string // the fields that were searched for; the existing ones are in part
}

// forget releases the decoded values. They are decoded again when needed.
func (b *body) forget() { b.numbers, b.texts = view{}, view{} }

func newBody(data []byte) *body { return &body{data: data} }

// keptBody returns the body of a job. It was checked when the job stored it: to do so at each check would double the
// cost of its use.
func keptBody(data []byte) *body {
	b := &body{data: data, checked: true, kept: true}
	if len(data) == 0 {
		b.err = errNoBody
	}
	return b
}

func (b *body) size() int {
	if b == nil {
		return 0
	}
	return len(b.data) + b.under.size()
}

// valid returns the body if it is JSON that a job can store, and nil otherwise.
func (b *body) valid() json.RawMessage {
	if b.check() != nil {
		return nil
	}
	return b.data
}

func (b *body) check() error {
	if !b.checked {
		b.checked, b.err = true, checkBody(b.data)
	}
	return b.err
}

var (
	errNoBody  = errors.New("the event has no body")
	errNotJSON = errors.New("the body is not JSON")
)

func checkBody(data []byte) error {
	switch {
	case len(data) == 0:
		return errNoBody
	case len(data) > MaxBody:
		return fmt.Errorf("the body has %d bytes, the most is %d", len(data), MaxBody)
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

// value returns the part of the body that an expression reads: its numbers to count with, or literally.
func (b *body) value(literal bool, read fieldSet) (v any, err error) {
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
	if err := b.check(); err != nil {
		return nil, err
	}
	d := decoder{data: b.data, literal: literal}
	if d.space(); !read.whole && d.data[d.at] == '{' {
		return known.fields(&d, read.fields)
	}
	v, err = d.value()
	known.whole = v
	return v, err
}

// unread returns how many bytes value has to decode.
func (b *body) unread(literal bool, read fieldSet) int {
	if b == nil || b.gone {
		return 0
	}
	known := &b.numbers
	if literal {
		known = &b.texts
	}
	if known.whole != nil || !read.whole && known.part != nil && known.had(read.fields) {
		return 0
	}
	return b.size()
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
