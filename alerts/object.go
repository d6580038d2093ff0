package alerts

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// object is a JSON object on its way to a row, field by field. What is written for every alert
// needs no look at what its type is.
type object []byte

func (o *object) name(name string) {
	open := byte(',')
	if len(*o) == 0 {
		open = '{'
	}
	*o = append(append(append(*o, open, '"'), name...), '"', ':')
}

// text adds a field, unless the text is empty.
func (o *object) text(name, s string) {
	if s != "" {
		o.name(name)
		*o = appendText(*o, s)
	}
}

// number adds a field, unless it is 0.
func (o *object) number(name string, n int) {
	if n != 0 {
		o.name(name)
		*o = strconv.AppendInt(*o, int64(n), 10)
	}
}

// texts adds a field of named texts, in the order of their names, unless there are none.
func (o *object) texts(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	o.name(name)
	*o = append(*o, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			*o = append(*o, ',')
		}
		*o = append(appendText(*o, key), ':')
		*o = appendText(*o, m[key])
	}
	*o = append(*o, '}')
}

// body adds a field that is JSON already, unless there is none.
func (o *object) body(name string, body json.RawMessage) {
	if len(body) > 0 {
		o.name(name)
		*o = append(*o, body...)
	}
}

// value adds any other field.
func (o *object) value(name string, v any) error {
	b, err := json.Marshal(v)
	o.body(name, b)
	return err
}

func (o *object) end() []byte {
	if len(*o) == 0 {
		return []byte("{}")
	}
	return append(*o, '}')
}

// appendText appends s as JSON. Most texts are the same within quotes.
func appendText(b []byte, s string) []byte {
	plain := utf8.ValidString(s)
	for i := 0; plain && i < len(s); i++ {
		plain = s[i] >= ' ' && s[i] != '"' && s[i] != '\\'
	}
	if plain {
		return append(append(append(b, '"'), s...), '"')
	}
	quoted, _ := json.Marshal(s) // of a string it is never an error
	return append(b, quoted...)
}
