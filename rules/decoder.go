package rules

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// decoder makes values of JSON that is known to be valid and not deep, so it looks for
// nothing wrong. Decoding is most of what a condition costs.
type decoder struct {
	data    []byte
	at      int
	literal bool // numbers stay as they are written
}

// value reads the next value: nil, bool, string, []any, map[string]any, or a number as
// number makes it. Only a number can't be read.
func (d *decoder) value() (any, error) {
	d.space()
	switch c := d.data[d.at]; c {
	case '{':
		return d.object()
	case '[':
		return d.list()
	case '"':
		return d.text(), nil
	case 't':
		d.at += len("true")
		return true, nil
	case 'f':
		d.at += len("false")
		return false, nil
	case 'n':
		d.at += len("null")
		return nil, nil
	}
	return d.number()
}

func (d *decoder) space() {
	for d.at < len(d.data) {
		switch d.data[d.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			d.at++
		default:
			return
		}
	}
}

// ends reports whether the next byte is the bracket that closes, and goes behind it.
func (d *decoder) ends(bracket byte) bool {
	d.space()
	if d.data[d.at] != bracket {
		return false
	}
	d.at++
	return true
}

func (d *decoder) object() (any, error) {
	m := make(map[string]any)
	for d.at++; !d.ends('}'); {
		name := d.text()
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		m[name] = v
	}
	return m, nil
}

func (d *decoder) list() (any, error) {
	list := []any{}
	for d.at++; !d.ends(']'); {
		v, err := d.value()
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (d *decoder) text() string {
	from := d.at + 1
	end := from
	escaped := false
	for d.data[end] != '"' {
		if d.data[end] == '\\' {
			escaped = true
			end++
		}
		end++
	}
	d.at = end + 1
	if !escaped {
		return string(d.data[from:end])
	}
	var s string
	_ = json.Unmarshal(d.data[from-1:end+1], &s) // valid text is never an error
	return s
}

// number reads a number to count with: an int, or a float64 where it is no whole number. A
// whole number that no int holds stays as it is written, since a float64 would change it.
func (d *decoder) number() (any, error) {
	from := d.at
	for d.at < len(d.data) && strings.IndexByte("+-.0123456789Ee", d.data[d.at]) >= 0 {
		d.at++
	}
	s := string(d.data[from:d.at])
	if d.literal {
		return s, nil
	}
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", clip(s, 40))
		}
		return f, nil
	}
	if i, err := strconv.Atoi(s); err == nil {
		return i, nil
	}
	return json.Number(s), nil
}
