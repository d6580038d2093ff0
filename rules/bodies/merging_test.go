package bodies

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// merge merges a patch into a state.
func merge(known, patch json.RawMessage) (json.RawMessage, error) {
	m := NewMerging(known)
	if err := m.Merge(patch); err != nil {
		return nil, err
	}
	return m.Text(), nil
}

// The cases are those of RFC 7396, appendix A, as far as the patch is an object.
func TestMergeIsAJSONMergePatch(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{``, ` {"a": 12345678901234567890}`, `{"a":12345678901234567890}`},
	} {
		merged, err := merge(json.RawMessage(c[0]), json.RawMessage(c[1]))
		var got, want any
		if err == nil {
			err = json.Unmarshal(merged, &got)
		}
		if err != nil {
			t.Errorf("%s with %s: %v", c[0], c[1], err)
			continue
		}
		if err := json.Unmarshal([]byte(c[2]), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s with %s (-want +got):\n%s", c[0], c[1], diff)
		}
	}
	if got, err := merge(nil, json.RawMessage(`{"n": 12345678901234567890}`)); err != nil || !strings.Contains(string(got), "12345678901234567890") {
		t.Errorf("a long number became %s, %v", got, err)
	}
}

func TestMergeRefuses(t *testing.T) {
	for _, patch := range []string{`[1]`, `"a"`, `7`, `null`, `true`} {
		if _, err := merge(json.RawMessage(`{}`), json.RawMessage(patch)); err == nil || !strings.Contains(err.Error(), "not an object") {
			t.Errorf("%s: %v", patch, err)
		}
	}
	long := `{"a":"` + strings.Repeat("x", MaxBytes/2) + `"}`
	if _, err := merge(json.RawMessage(strings.Replace(long, "a", "b", 1)), json.RawMessage(long)); err == nil || !strings.Contains(err.Error(), "the most is") {
		t.Errorf("a state beyond the limit: %v", err)
	}
}
