// Package longtest marks the tests that take minutes, and the long forms of others. They run if DEADMAN_TEST_LONG is set, as
// make test/all does.
package longtest

import (
	"os"
	"testing"
)

// Environment is the variable that enables the long tests.
const Environment = "DEADMAN_TEST_LONG"

// Enabled reports whether the long tests run.
func Enabled() bool { return os.Getenv(Environment) != "" }

// Only skips a test for a reason, unless the long tests run.
func Only(tb testing.TB, reason string) {
	tb.Helper()
	if !Enabled() {
		tb.Skipf("%s; %s=1 runs it", reason, Environment)
	}
}
