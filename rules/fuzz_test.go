package rules

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"
)

// soon fails a fuzz that takes long on one input.
func soon(t *testing.T, begin time.Time, what string) {
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("%s took %s", what, took)
	}
}

func FuzzExpression(f *testing.F) {
	for _, source := range []string{
		`event.total > 0`, `event.a == "x" and not event.b`, `any(event.items, .n > 2)`, `date(event.at) + days(3) > since`,
		`event.a ?? event.b`, `sum(event.items, .n) / len(event.items)`, `event?.a?.b`, `{"a": event.a}["a"] == 1`,
		`map(filter(event.items, .n > 1), .sku)[0]`, `event.text matches "a+"`, `1..9`, `let x = 1; x`, `((((`, `event.text[1:2]`,
		`all(event.items, any(event.items, #.n == .n))`, `event.int ** event.int ** event.int`, `-9223372036854775808`, `"\u{10FFFF}"`,
		`event.items | map(.n) | sum()`, `if event.yes {1} else {2}`, `get(event, "a")`, `split(event.text, "")`, `string(event)`,
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		begin := time.Now()
		defer soon(t, begin, source)
		for _, d := range []dialect{inKey, inIf, inSince, inWhile, inText} {
			x, err := compileExpression(source, d)
			if err != nil {
				continue
			}
			before := slices.Clone([]byte(sample))
			v, err := x.run(seen(t))
			again, errAgain := x.run(seen(t))
			if (err == nil) != (errAgain == nil) || err == nil && !same(v, again) {
				t.Errorf("%s: %v, %v and then %v, %v", source, v, err, again, errAgain)
			}
			if !slices.Equal(before, []byte(sample)) {
				t.Errorf("%s changed what it read", source)
			}
		}
	})
}

// same leaves out what is equal to nothing, not even itself.
func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, errY := json.Marshal(b)
	return err != nil && errY != nil || string(x) == string(y)
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"name: late\nentity: order\ntrigger: {event: a, key: event.id}\nescalate: [{after: 3h}]\n",
		`{"name": "late", "entity": "order", "trigger": {"event": "a", "key": "event.id"}, "escalate": [{"after": "3h"}]}`,
		"name: late\nwhile: !x\n", "a: &b [*b]\n", "- - - -", "{{{{", "? a\n: b", "a: |\n  b\n", "---\n...\n---", "%YAML 1.2\n---\na: b",
		"name: late\nentity: order\ntrigger: {event: a, key: event.id}\nresolve: [{event: b, key: event.id, as: done}]\nwhile: state.a == 1\nescalate:\n  - {after: 3h, text: \"{{key}}\"}\nhold: 0\nlabels: {a: b}\nguards: {timeout: 1s, end: true}\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer soon(t, time.Now(), string(text))
		documents, err := Parse(text, "fuzz.yaml")
		var problems Problems
		switch {
		case err != nil && !errors.As(err, &problems):
			t.Fatalf("%T: %v", err, err)
		case err != nil && (len(problems) == 0 || documents != nil):
			t.Fatalf("%d problems and %d documents", len(problems), len(documents))
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("%+v has no place or no words", p)
			}
		}
		for _, d := range documents {
			roundTrip(t, d)
		}
	})
}

// roundTrip writes a document and reads it both ways.
func roundTrip(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, d Document,
) {
	text, err := d.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text, "again.json")
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	stored, err := decodeDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again[0], stored) {
		t.Fatalf("parsed %+v\nstored %+v", again[0], stored)
	}
	back, err := again[0].Canonical()
	if err != nil || string(back) != string(text) {
		t.Fatalf("%s\nbecame\n%s\n%v", text, back, err)
	}
}
