package web

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"deadman/internal/configfile"
)

// lineError is an error in a line.
type lineError struct{ field, message string }

func (e lineError) Error() string { return e.message }

// lineFormat describes the object of a line.
type lineFormat struct {
	fields   []string // permitted fields, the required ones first; at most 16
	required int      // number of required fields
	example  string
}

// lineReader parses a line in one pass and without copying its large values, since a body has thousands of lines. It
// finds the end of such a value by brackets and quotes; the code that stores the value checks that it is JSON.
type lineReader struct {
	*lineFormat
	text []byte
	at   int
}

// fieldSet is a set of fields, by their index in a lineFormat.
type fieldSet uint16

func (s fieldSet) has(i int) bool { return s&(1<<i) != 0 }

// object reads the object of a line, with a function that reads the value of a field, and returns the fields that are
// set. All errors are lineErrors.
func (r *lineReader) object(value func(name string) error) (seen fieldSet, err error) {
	if r.next() != '{' {
		return seen, r.wrong("expected an object, such as %s", r.example)
	}
	r.at++
	for more := r.next() != '}'; more; {
		if err := r.field(&seen, value); err != nil {
			return seen, err
		}
		switch r.next() {
		case ',':
			r.at++
		case '}':
			more = false
		default:
			return seen, r.wrong("expected a comma or the object's end")
		}
	}
	r.at++
	if r.next(); r.at < len(r.text) {
		return seen, r.wrong("there is more after the object; write each object on a line of its own (with curl: --data-binary, since -d takes line breaks out)")
	}
	for i, name := range r.fields[:r.required] {
		if !seen.has(i) {
			return seen, missingField(name)
		}
	}
	return seen, nil
}

func missingField(name string) lineError { return lineError{name, name + " is missing"} }

// field reads one field.
func (r *lineReader) field(seen *fieldSet, value func(name string) error) error {
	if r.next() != '"' {
		return r.wrong("expected the name of a field, in double quotes")
	}
	name, err := r.string()
	if err != nil {
		return err
	}
	i := 0
	for i < len(r.fields) && r.fields[i] != name {
		i++
	}
	switch {
	case i == len(r.fields):
		return lineError{"", configfile.UnknownName("field", name, r.fields)}
	case seen.has(i):
		return lineError{name, "the field is duplicated; keep one"}
	case r.next() != ':':
		return r.wrong("expected a colon after %s", name)
	}
	*seen |= 1 << i
	r.at++
	if r.next() == 0 {
		return r.wrong("the line ends before the object does; is a line break within it?")
	}
	return value(name)
}

// name reads the text of a field, of 1 to limit bytes.
func (r *lineReader) name(field string, limit int) (string, error) {
	s, err := r.short(field, limit)
	if err == nil && s == "" {
		err = lineError{field, field + " is empty"}
	}
	return s, err
}

// short reads the text of a field, of up to limit bytes.
func (r *lineReader) short(field string, limit int) (string, error) {
	if r.next() != '"' {
		return "", lineError{field, field + " is not a text; write it in double quotes"}
	}
	s, err := r.string()
	switch {
	case err != nil:
		return "", err
	case len(s) > limit:
		return "", lineError{field, fmt.Sprintf("%d bytes are too many; the limit is %d", len(s), limit)}
	case !utf8.ValidString(s):
		return "", lineError{field, "not valid UTF-8; no key or name has such bytes"}
	}
	return s, nil
}

// instant reads a time.
func (r *lineReader) instant(field string) (t time.Time, err error) {
	if r.next() == '"' {
		var s string
		if s, err = r.string(); err != nil {
			return t, err
		}
		if err = t.UnmarshalText([]byte(s)); err == nil {
			if message := outOfBounds(t); message != "" {
				return t, lineError{field, message}
			}
			return t.UTC(), nil
		}
	}
	return t, lineError{field, "it is no time; write it as 2026-01-31T15:04:05Z, in double quotes"}
}

// truth reads true or false.
func (r *lineReader) truth(field string) (bool, error) {
	text, err := r.value()
	if word := string(text); err == nil && (word == "true" || word == "false") {
		return word == "true", nil
	}
	return false, lineError{field, "it is neither true nor false; write one of them, without quotes"}
}

// string reads the text that starts at the next quote.
func (r *lineReader) string() (string, error) {
	from, plain := r.at, true
	for i := from + 1; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			r.at = i + 1
			if plain {
				return string(r.text[from+1 : i]), nil
			}
			var s string
			if json.Unmarshal(r.text[from:r.at], &s) != nil {
				r.at = from
				return "", r.wrong("the text has a backslash that means nothing; write \\\\ for one")
			}
			return s, nil
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			r.at = i
			return "", r.wrong("a text has a control character; write it as \\u%04x", c)
		}
	}
	return "", r.wrong("the text has no end; its closing quote is missing")
}

// value returns the next JSON value, as delimited by brackets and quotes.
func (r *lineReader) value() (json.RawMessage, error) {
	from, depth := r.at, 0
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case '{', '[':
			depth++
		case '"':
			if !r.skipText() {
				return nil, r.wrong("the value has a text without an end")
			}
			continue // after the closing quote, possibly the value's end
		case ',', ' ', '\t', '\r':
			if depth == 0 {
				return r.found(from)
			}
		case '}', ']':
			if depth == 0 {
				return r.found(from)
			}
			depth--
		}
		r.at++
	}
	return nil, r.wrong("the object has no end; its closing bracket is missing")
}

// found returns the value between from and the current position.
func (r *lineReader) found(from int) (json.RawMessage, error) {
	if r.at == from {
		return nil, r.wrong("the field has no value; set one or remove the field")
	}
	return r.text[from:r.at:r.at], nil
}

// skipText skips the text that starts at the next quote; false if it has no end.
func (r *lineReader) skipText() bool {
	for r.at++; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '"':
			r.at++
			return true
		case '\\':
			r.at++
		}
	}
	return false
}

// next returns the next byte that is no space; 0 at the end.
func (r *lineReader) next() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// wrong returns an error at the current position, in bytes from 1.
func (r *lineReader) wrong(format string, args ...any) error {
	return lineError{"", fmt.Sprintf("at byte %d of the line: ", r.at+1) + fmt.Sprintf(format, args...)}
}
