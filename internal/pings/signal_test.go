package pings_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/pings"
)

func TestPaths(t *testing.T) {
	const id = "5bf66975-d4c7-4bf5-bcc8-b8d8a82ea278"
	for path, want := range map[string]*pings.Path{
		"/ping/" + id:                              {ID: id, Rest: []string{}},
		"/ping/" + id + "/":                        {ID: id, Rest: []string{}},
		"/ping/" + strings.ToUpper(id):             {ID: id, Rest: []string{}},
		"/ping/" + id + "/fail":                    {ID: id, Rest: []string{"fail"}},
		"/ping/fqOOd6-F4MMNuCEnzTU01w/db/17":       {ID: "fqOOd6-F4MMNuCEnzTU01w", Rest: []string{"db", "17"}},
		"/ping/k/a%2Fb%20%E2%98%83":                {ID: "k", Rest: []string{"a/b ☃"}},
		"/ping/k/" + strings.Repeat("a", 512):      {ID: "k", Rest: []string{strings.Repeat("a", 512)}},
		"/ping/k/" + strings.Repeat("a", 513):      nil,
		"/ping/k/a/fail/b":                         nil,
		"/ping/k//fail":                            nil,
		"/ping/":                                   nil,
		"/ping/%zz":                                nil,
		"/pong/k":                                  nil,
		"/ping/" + strings.ReplaceAll(id, "-", ""): {ID: strings.ReplaceAll(id, "-", ""), Rest: []string{}}, // not the form of UUIDs in addresses
	} {
		got, err := pings.ReadPath(path)
		switch {
		case want == nil && !errors.Is(err, pings.ErrUnknown):
			t.Errorf("%s is %+v, %v", path, got, err)
		case want != nil && (err != nil || !cmp.Equal(*want, got)):
			t.Errorf("%s is %+v, %v", path, got, err)
		}
	}
}

func TestRuns(t *testing.T) {
	const id = "684e2e73-017e-465f-8149-d70b7c5aaa49"
	for _, same := range []string{id, strings.ToUpper(id), strings.ReplaceAll(id, "-", "")} {
		if got, err := pings.ReadRun(same); got != id || err != nil {
			t.Errorf("%s is %q, %v", same, got, err)
		}
	}
	for _, other := range []string{"", "12345", id + "0", "{" + id + "}", "urn:uuid:" + id, strings.Replace(id, "a", "g", 1)} {
		if got, err := pings.ReadRun(other); !errors.Is(err, pings.ErrBadRunID) {
			t.Errorf("%q is %q, %v", other, got, err)
		}
	}
}

func TestIDs(t *testing.T) {
	const id, others = "5BF66975-d4c7-4bf5-bcc8-b8d8a82ea278", "fqOOd6-F4MMNuCEnzTU01w"
	for _, c := range []struct {
		given   string
		pingKey bool
		want    string
	}{
		{id, false, strings.ToLower(id)},
		{id, true, strings.ToLower(id)},
		{others, true, others},
		{others, false, ""},
		{others + "x", true, ""},
		{strings.ReplaceAll(id, "-", ""), false, ""},
		{"", true, ""},
	} {
		got, err := pings.ParseID(c.given, c.pingKey)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q, ping key %t: %q, %v", c.given, c.pingKey, got, err)
		}
	}
	seen := map[string]bool{}
	for range 100 {
		id, err := pings.NewID()
		if err != nil || seen[id] {
			t.Fatalf("%s is there twice, or %v", id, err)
		}
		if got, err := pings.ParseID(id, false); got != id || err != nil {
			t.Errorf("%s is not one that could be given: %v", id, err)
		}
		seen[id] = true
	}
}
