package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	tree    any   // with json.Number for numbers
	numbers any   // the tree with numbers to count with
	texts   any   // the tree with numbers as they were written
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

func checkBody(data []byte) error {
	switch {
	case len(data) == 0:
		return errors.New("the event has no body")
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
		return nil, errors.New("the event has no body")
	}
	if err := b.read(); err != nil {
		return nil, err
	}
	var err error
	if literal {
		if b.texts == nil {
			b.texts, err = convert(b.tree, func(n json.Number) (any, error) { return n.String(), nil })
		}
		return b.texts, err
	}
	if b.numbers == nil {
		b.numbers, err = convert(b.tree, number)
	}
	return b.numbers, err
}

func (b *body) read() error {
	if err := b.check(); err != nil || b.tree != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b.data))
	d.UseNumber()
	return d.Decode(&b.tree)
}

// number is n to count with: an int, or a float64 where n is no whole number. A whole
// number that no int holds stays as it is written, since a float64 would change it.
func number(n json.Number) (any, error) {
	s := n.String()
	if !strings.ContainsAny(s, ".eE") {
		i, err := strconv.Atoi(s)
		if err != nil {
			return n, nil
		}
		return i, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is too large", clip(s, 40))
	}
	return f, nil
}

// convert copies a tree with other numbers.
func convert(v any, number func(json.Number) (any, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, item := range v {
			if m[name], err = convert(item, number); err != nil {
				return nil, err
			}
		}
		return m, nil
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			if list[i], err = convert(item, number); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return v, nil
}
