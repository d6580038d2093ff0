package alerts_test

import (
	"testing"

	"deadman/alerts"
)

func TestLike(t *testing.T) {
	for _, c := range []struct {
		text, pattern string
		want          bool
	}{
		{"order-late", "order-late", true},
		{"order-late", "order", false},
		{"order", "order-late", false},
		{"order-late", "order-*", true},
		{"order-late", "*late", true},
		{"order-late", "*", true},
		{"", "*", true},
		{"", "", true},
		{"order-late", "o*-*e", true},
		{"order-late", "o*x*e", false},
		{"aa", "a*a*a", false},
		{"aba", "a*a", true},
		{"a", "a*a", false},
		{"a/b c", "a/*", true},
		{"abcabc", "*bc", true},
		{"abcabd", "*bc", false},
		{"late", "**", true},
		{"x", "", false},
	} {
		if got := alerts.MatchPattern(c.text, c.pattern); got != c.want {
			t.Errorf("%q is like %q: %t", c.text, c.pattern, got)
		}
	}
}

func TestMatch(t *testing.T) {
	a := alerts.Alert{Rule: "order-late", Entity: "order", Key: "1", Detail: alerts.Detail{Draft: alerts.Draft{
		Status: alerts.Firing, Severity: alerts.Error, Step: "primary", Labels: map[string]string{"site": "north", "rule": "no label"},
	}}}
	for _, c := range []struct {
		match alerts.Match
		want  bool
	}{
		{nil, true},
		{alerts.Match{"rule": "order-*", "site": "n*"}, true},
		{alerts.Match{"rule": "order-*", "site": "south"}, false},
		{alerts.Match{"severity": "error", "status": "firing", "step": "primary", "entity": "order", "key": "1"}, true},
		{alerts.Match{"rule": "no label"}, false},
		{alerts.Match{"other": "*x"}, false},
	} {
		if got := c.match.Matches(a); got != c.want {
			t.Errorf("%s: %t", c.match, got)
		}
	}
}
