package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Bounds of what an event carries.
const (
	MaxBody  = 256 << 10 // bytes
	maxDepth = 64        // levels of JSON
)

// body is what an event carries, taken apart when an expression first reads it. Of names
// that are twice in an object the last counts. It is not safe for concurrent use.
type body struct {
	data    []byte
	checked bool
	err     error // why it can't be read
	numbers any   // with numbers to count with
	texts   any   // with numbers as they were written
}

func newBody(data []byte) *body { return &body{data: data} }

func (b *body) size() int {
	if b == nil {
		return 0
	}
	return len(b.data)
}

// valid is the body if it is JSON that a job can carry, and nil otherwise.
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

var errNoBody = errors.New("the event has no body")

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
		return errors.New("the body is not JSON")
	}
	return nil
}

// deeper reports whether brackets outside of text are nested deeper than most.
func deeper(data []byte, most int) bool {
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

// value is the body for an expression: its numbers to count with, or literally.
func (b *body) value(literal bool) (any, error) {
	if b == nil {
		return nil, errNoBody
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	known := &b.numbers
	if literal {
		known = &b.texts
	}
	if *known != nil {
		return *known, nil
	}
	d := decoder{data: b.data, literal: literal}
	v, err := d.value()
	*known = v
	return v, err
}
