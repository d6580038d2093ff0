package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestResultsFollowOutputFormat checks that results are text by default, and only JSON with -o json.
func TestResultsFollowOutputFormat(t *testing.T) {
	t.Parallel()
	for _, output := range []format{asText, asJSON} {
		var out bytes.Buffer
		c := inProcess(&out, nil)
		c.output = output
		if err := c.report(map[string]string{"token": "ci"}, "revoked: token %s\n", "ci"); err != nil {
			t.Fatal(err)
		}
		if err := c.write([]byte(`{"job":1}`), func() error { return c.report(nil, "job 1\n") }); err != nil {
			t.Fatal(err)
		}
		got, want := strings.Join(strings.Fields(out.String()), " "), "revoked: token ci job 1"
		if output == asJSON {
			want = `{ "token": "ci" } { "job": 1 }`
		}
		if got != want {
			t.Errorf("%s: %s, want %s", output, got, want)
		}
	}
}
