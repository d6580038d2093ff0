package rules

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzDecoder: the decoder reads what the standard library reads, in both ways.
func FuzzDecoder(f *testing.F) {
	for _, text := range []string{
		sample, `null`, ` [ 1 , -2.5e3 , "\u00e4\n\ud800" , {} , [] , {"a" : {"a" : 1, "a" : 2}} ] `, `"a\\\"b"`, `-0`, `1e999`, `12345678901234567890`,
		`{"": true, "b": false}`, `1.0`, "\t{\r\n}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if checkBody(text) != nil {
			return
		}
		for _, literal := range []bool{true, false} {
			var want any
			standard := json.NewDecoder(bytes.NewReader(text))
			standard.UseNumber()
			if err := standard.Decode(&want); err != nil {
				t.Fatal(err)
			}
			d := decoder{data: text, literal: literal}
			got, err := d.value()
			if expected, fits := numbered(want, literal); fits != (err == nil) || fits && !reflect.DeepEqual(got, expected) {
				t.Errorf("%s (literal %v): %#v, %v, want %#v", text, literal, got, err, expected)
			}
		}
	})
}

// numbered is a tree of the standard library with its numbers as ours; fits is false where
// one is too large.
func numbered(v any, literal bool) (_ any, fits bool) {
	switch v := v.(type) {
	case json.Number:
		if literal {
			return v.String(), true
		}
		if i, err := v.Int64(); err == nil {
			return int(i), true
		}
		if !bytes.ContainsAny([]byte(v), ".eE") {
			return v, true
		}
		f, err := v.Float64()
		return f, err == nil
	case []any:
		for i := range v {
			item, fits := numbered(v[i], literal)
			if !fits {
				return nil, false
			}
			v[i] = item
		}
	case map[string]any:
		for name := range v {
			item, fits := numbered(v[name], literal)
			if !fits {
				return nil, false
			}
			v[name] = item
		}
	}
	return v, true
}
