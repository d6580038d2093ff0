// Package bustest holds what tests with NATS servers need.
package bustest

import (
	"testing"

	"deadman/bus/bustest/freeport"
)

// Port returns a port of loopback that nobody listens on, and that the system gives to nobody by itself.
func Port(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
