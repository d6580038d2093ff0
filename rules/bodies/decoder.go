package bodies

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"deadman/internal/configfile"
)

// decoder decodes JSON that is known to be valid and not deep, so it does not check for errors. Invalid JSON results in
// any value, an error or a panic, but decoding ends. Decoding is most of a condition's cost.
type decoder struct {
	data    []byte
	at      int
	literal bool // numbers stay as they are written
}

// value reads the next value: nil, bool, string, []any, map[string]any, or a number as number returns it. Only numbers
// can fail.
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

// ends reports whether the next byte is the closing bracket, and moves past it.
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

// fields reads the named fields of an object into m, and skips the others. Of a name that occurs twice in the object
// the last counts.
func (d *decoder) fields(names []string, m map[string]any) error {
	d.space()
	for d.at++; !d.ends('}'); {
		i := d.oneOf(names)
		if i < 0 {
			if err := d.skip(); err != nil {
				return err
			}
			continue
		}
		v, err := d.value()
		if err != nil {
			return err
		}
		m[names[i]] = v
	}
	return nil
}

// oneOf reads a name and returns its index in names, or -1.
func (d *decoder) oneOf(names []string) int {
	from := d.at + 1
	raw, escaped := d.raw()
	if escaped {
		d.at = from - 1
		return slices.Index(names, d.text())
	}
	for i, name := range names {
		if string(raw) == name {
			return i
		}
	}
	return -1
}

// skip moves past the next value. An unreadable value is an error all the same: whether a body is accepted does not
// depend on the fields that are read.
func (d *decoder) skip() error {
	d.space()
	for depth := 0; ; {
		switch d.data[d.at] {
		case '"':
			d.raw()
		case '{', '[':
			depth++
			d.at++
		case '}', ']':
			depth--
			d.at++
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if err := d.skipNumber(); err != nil {
				return err
			}
		default: // of a list or an object, or a letter of true, false or null
			d.at++
		}
		if depth == 0 && (d.at == len(d.data) || strings.IndexByte(",}] \t\r\n", d.data[d.at]) >= 0) {
			return nil
		}
	}
}

// longNumber is the length that a number needs to be too large for a float64 without an exponent.
const longNumber = 300

func (d *decoder) skipNumber() error {
	from, power := d.at, false
	for d.at < len(d.data) && strings.IndexByte(numeric, d.data[d.at]) >= 0 {
		power = power || d.data[d.at]|0x20 == 'e'
		d.at++
	}
	if d.literal || !power && d.at-from < longNumber {
		return nil
	}
	d.at = from
	_, err := d.number()
	return err
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

// raw returns the bytes between the quotes of the next text, and moves past it.
func (d *decoder) raw() (raw []byte, escaped bool) {
	from := d.at + 1
	end := from
	for d.data[end] != '"' {
		if d.data[end] == '\\' {
			escaped = true
			end++
		}
		end++
	}
	d.at = end + 1
	return d.data[from:end], escaped
}

func (d *decoder) text() string {
	from := d.at
	raw, escaped := d.raw()
	if !escaped {
		return string(raw)
	}
	var s string
	_ = json.Unmarshal(d.data[from:d.at], &s) // valid text is never an error
	return s
}

// numeric holds the characters of numbers.
const numeric = "+-.0123456789Ee"

// number reads a number to count with: an int, or a float64 if it is no whole number. A whole number that no int holds
// stays as it is written, since a float64 would change it.
func (d *decoder) number() (any, error) {
	from := d.at
	for d.at < len(d.data) && strings.IndexByte(numeric, d.data[d.at]) >= 0 {
		d.at++
	}
	if d.at == from {
		return nil, errNotJSON
	}
	raw := d.data[from:d.at]
	if d.literal {
		return string(raw), nil
	}
	if i, err := strconv.Atoi(string(raw)); err == nil {
		return i, nil
	}
	s := string(raw)
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return nil, fmt.Errorf("the number %s is too large", configfile.Truncate(s, 40))
		}
		return f, nil
	}
	return json.Number(s), nil
}
