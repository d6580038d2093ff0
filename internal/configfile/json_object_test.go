package configfile_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"deadman/internal/configfile"
)

func FuzzObjectMatchesJSON(f *testing.F) {
	for _, s := range []string{"", "late", `a "b" \c`, "\n\t\x00\x1f\x7f", "é\u2028</script>", "\xff\xfe x", "👩‍🚀"} {
		f.Add(s, int64(len(s)), len(s)%2 == 0)
	}
	f.Fuzz(func(t *testing.T, s string, n int64, is bool) {
		var o configfile.ObjectEncoder
		o.Text("text", s)
		o.Number("number", n)
		o.Flag("flag", is)
		o.Texts("texts", map[string]string{s: s, "a": "1"})
		o.Body("body", json.RawMessage(`[1]`))
		if err := o.Value("value", []string{s}); err != nil {
			t.Fatal(err)
		}
		whole := o.End()
		if !utf8.Valid(whole) {
			t.Fatalf("%q is not UTF-8", whole)
		}
		type read struct {
			Text   string            `json:"text"`
			Number int64             `json:"number"`
			Flag   bool              `json:"flag"`
			Texts  map[string]string `json:"texts"`
			Body   json.RawMessage   `json:"body"`
			Value  []string          `json:"value"`
		}
		var got, want read
		if err := json.Unmarshal(whole, &got); err != nil {
			t.Fatalf("%s: %v", whole, err)
		}
		other, err := json.Marshal(read{s, n, is, map[string]string{s: s, "a": "1"}, json.RawMessage(`[1]`), []string{s}})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(other, &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v", whole, got, want)
		}
	})
}

func TestObjectWithoutFields(t *testing.T) {
	var o configfile.ObjectEncoder
	o.Text("text", "")
	o.Number("number", 0)
	o.Flag("flag", false)
	o.Texts("texts", nil)
	o.Body("body", nil)
	if got := string(o.End()); got != "{}" {
		t.Errorf("%s, want {}", got)
	}
}
