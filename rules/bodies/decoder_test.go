package bodies

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// sample has a value of each kind.
const sample = `{
	"text": "UNSHIPPED", "empty": "", "null": null, "yes": true, "no": false,
	"int": 5, "float": 1.50, "long": 12345678901234567890, "beyond53": 9007199254740993, "exponent": 1e3,
	"items": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}, {"sku": "c", "n": 3}], "tags": ["x", "y"],
	"deep": {"er": {"est": "z"}}, "at": "2026-01-01T10:00:00Z", "seconds": 1767261600, "odd name": 1
}`

// FuzzDecoder checks that the decoder reads the same values as the standard library, in both ways.
func FuzzDecoder(f *testing.F) {
	for _, text := range []string{
		sample, `null`, ` [ 1 , -2.5e3 , "\u00e4\n\ud800" , {} , [] , {"a" : {"a" : 1, "a" : 2}} ] `, `"a\\\"b"`, `-0`, `1e999`, `12345678901234567890`,
		`{"": true, "b": false}`, `1.0`, "\t{\r\n}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if Check(text) != nil {
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
			if object, is := got.(map[string]any); is && err == nil {
				sameFields(t, text, literal, object)
			}
			if _, fine := New(text).Value(literal, Part{Fields: []string{"never there"}}); (fine == nil) != (err == nil) {
				t.Errorf("%s (literal %v): %v where nothing is read of it, %v where all is", text, literal, fine, err)
			}
		}
	})
}

// sameFields checks that fields that are read alone are those of the whole.
func sameFields(t *testing.T, text []byte, literal bool, object map[string]any) {
	t.Helper()
	names := []string{"never there", "a"}
	for name := range object {
		names = append(names, name)
		if len(names) == 5 {
			break
		}
	}
	want := make(map[string]any)
	for _, name := range names {
		if v, there := object[name]; there {
			want[name] = v
		}
	}
	b := New(text)
	for i := range names { // one after the other, as expressions do
		got, err := b.Value(literal, Part{Fields: names[:i+1]})
		if err != nil {
			t.Fatalf("%s: fields %q: %v", text, names[:i+1], err)
		}
		if i == len(names)-1 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s (literal %v): fields %q are %#v, want %#v", text, literal, names, got, want)
		}
	}
}

// numbered returns a tree of the standard library with its numbers as ours; fits is false if one is too large.
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

// BenchmarkDecoder compares the decoder with encoding/json, for all of a body and for the field that a condition reads. The
// decoder is kept while one field takes at most half the time.
func BenchmarkDecoder(b *testing.B) {
	text := []byte(sample)
	b.Run("whole", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			d := decoder{data: text}
			if _, err := d.value(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one field", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := New(text).Value(false, Part{Fields: []string{"text"}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			var all any
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&all); err != nil {
				b.Fatal(err)
			}
		}
	})
}
