package bodies

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// jsonParts are parts of JSON and of texts that are nearly JSON.
var jsonParts = []string{
	"{", "}", "[", "]", ",", ":", `"a"`, `"b":`, `"\u00e9"`, `"\u00g9"`, `"\"`, `"\n"`, `"\x"`, "\"\t\"", "\"\xff\"", `"`, `\`, "0", "01", "-", "-1", "1.", "1.5", ".5", "1e", "1e+3", "2E-1",
	"true", "false", "null", "nul", "True", " ", "\n", "\r", "\t", "\v", "\x00", "é",
}

// The scanner accepts the same texts as encoding/json, and finds the members that encoding/json finds.
func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, text string) (isValid bool) {
		s := scanner{data: []byte(text)}
		got, want := s.value(0) && s.isAtEnd(), json.Valid([]byte(text))
		if got != want {
			t.Fatalf("%q: valid is %v, encoding/json says %v", text, got, want)
		}
		var members map[string]json.RawMessage
		isObject := json.Unmarshal([]byte(text), &members) == nil && members != nil
		found := make(map[string]json.RawMessage)
		got = Fields([]byte(text), func(name, value []byte) bool {
			var plain string
			if err := json.Unmarshal([]byte(`"`+string(name)+`"`), &plain); err != nil {
				t.Fatalf("%q: name %q: %v", text, name, err)
			}
			found[plain] = value
			return true
		})
		if got != isObject {
			t.Fatalf("%q: an object is %v, encoding/json says %v", text, got, isObject)
		}
		for name, value := range members {
			if string(found[name]) != string(value) || len(found) != len(members) {
				t.Fatalf("%q: member %q is %q, encoding/json says %q", text, name, found[name], value)
			}
		}
		return want
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		if check(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(jsonParts), 0, 8).Draw(t, "parts"), "")) {
			accepted++
		}
		object := "{}"
		for range rapid.IntRange(0, 4).Draw(t, "members") { // one wrong part in an object that is valid otherwise
			part := rapid.SampledFrom(jsonParts).Draw(t, "part")
			object = `{"x": ` + object + `,"y":[1,` + part + `]}`
		}
		if check(t, object) {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no text was valid")
	}
	for _, levels := range []int{maxDepth, maxDepth + 1} {
		text := []byte(strings.Repeat("[", levels) + strings.Repeat("]", levels))
		s := scanner{data: text}
		if got := s.value(0); got != (levels == maxDepth) {
			t.Errorf("%d levels: accepted is %v", levels, got)
		}
	}
}
