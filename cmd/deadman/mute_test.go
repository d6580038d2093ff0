package main

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestMuteMatch(t *testing.T) {
	got, err := matchOf([]string{"rule=order-*", "site=a=b"})
	if want := map[string]string{"rule": "order-*", "site": "a=b"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, c := range []struct {
		matches  []string
		wantText string
	}{
		{nil, "is required"},
		{[]string{"rule"}, "NAME=PATTERN"},
		{[]string{"=x"}, "NAME=PATTERN"},
		{[]string{"rule="}, "NAME=PATTERN"},
		{[]string{"rule=a", "rule=b"}, "twice"},
	} {
		_, err := matchOf(c.matches)
		if misuse := (usageError{}); !errors.As(err, &misuse) || !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%q: %v", c.matches, err)
		}
	}
}
