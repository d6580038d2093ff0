package logins

import "testing"

// A claim equals a text only if it is one. A provider may send a list or an object instead, and no comparison panics.
func TestClaimsAreComparedAsTexts(t *testing.T) {
	list, object := []any{"ann@example.org"}, map[string]any{"work": "ann@example.org"}
	for name, c := range map[string]struct {
		own, other any
		want       bool
	}{
		"the same text":     {"ann@example.org", "ann@example.org", true},
		"another text":      {"ann@example.org", "boss@example.org", false},
		"the same list":     {list, list, false},
		"the same object":   {object, object, false},
		"a list and a text": {list, "ann@example.org", false},
		"a text and a list": {"ann@example.org", list, false},
		"numbers":           {1.0, 1.0, false},
		"none":              {nil, nil, false},
		"a text and none":   {"", nil, false},
		"none and a text":   {nil, "", false},
	} {
		if got := (claims{"email": c.own}).haveText("email", c.other); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
