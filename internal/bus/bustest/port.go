// Package bustest holds what tests with NATS servers need.
package bustest

import (
	"testing"

	"deadman/internal/bus/bustest/freeport"
)

// Port returns a free TCP port of the loopback address, outside the range of the local ports of connections.
func Port(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
