package faults_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The product has no trace of the failpoints and the seeded bugs. The breakable program has both, so the search can
// find them.
func TestProductHasNoFailpoints(t *testing.T) {
	for name, program := range map[string]func() (string, error){"the product": binary, "the breakable program": breakable} {
		path, err := program()
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := exec.Command("go", "tool", "nm", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(symbols), "deadman/internal/events.(*streamReader).applyBatch") {
			t.Fatalf("%s: no symbols to check", name)
		}
		for _, trace := range []string{"deadman/internal/failpoints.", "deadman/server.(*buggy"} {
			if has := strings.Contains(string(symbols), trace); has != (name != "the product") {
				t.Errorf("%s has %s: %v", name, trace, has)
			}
		}
	}
}
