package configfile

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// ObjectEncoder encodes a JSON object field by field. It avoids reflection for rows that are written for every job or
// alert.
type ObjectEncoder []byte

func (o *ObjectEncoder) name(name string) {
	open := byte(',')
	if len(*o) == 0 {
		open = '{'
	}
	*o = append(append(append(*o, open, '"'), name...), '"', ':')
}

// Text adds a text field, unless the text is empty.
func (o *ObjectEncoder) Text(name, s string) {
	if s != "" {
		o.name(name)
		*o = appendText(*o, s)
	}
}

// Number adds a number field, unless it is 0.
func (o *ObjectEncoder) Number(name string, n int64) {
	if n != 0 {
		o.name(name)
		*o = strconv.AppendInt(*o, n, 10)
	}
}

// Flag adds a boolean field, unless it is false.
func (o *ObjectEncoder) Flag(name string, is bool) {
	if is {
		o.name(name)
		*o = append(*o, "true"...)
	}
}

// Texts adds an object of texts, ordered by name, unless it is empty.
func (o *ObjectEncoder) Texts(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	o.name(name)
	*o = append(*o, '{')
	var few [8]string // enough for most maps, without an allocation
	keys := few[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i, key := range keys {
		if i > 0 {
			*o = append(*o, ',')
		}
		*o = append(appendText(*o, key), ':')
		*o = appendText(*o, m[key])
	}
	*o = append(*o, '}')
}

// Body adds a field that is JSON already, unless it is empty.
func (o *ObjectEncoder) Body(name string, body json.RawMessage) {
	if len(body) > 0 {
		o.name(name)
		*o = append(*o, body...)
	}
}

// Value adds a field of any type by json.Marshal.
func (o *ObjectEncoder) Value(name string, v any) error {
	b, err := json.Marshal(v)
	o.Body(name, b)
	return err
}

// End returns the complete object.
func (o *ObjectEncoder) End() []byte {
	if len(*o) == 0 {
		return []byte("{}")
	}
	return append(*o, '}')
}

// appendText appends s as JSON. Invalid UTF-8 is replaced, as by encoding/json.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', '0'+byte(r>>4), hex[r&0xf])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

const hex = "0123456789abcdef"
