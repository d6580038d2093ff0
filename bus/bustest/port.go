// Package bustest holds what tests with NATS servers need.
package bustest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports that the system gives to nobody by itself. One that it gave away for a moment may be
// the near end of somebody's connection when a server is to listen on it, and a server of a
// cluster whose routes can't listen never joins.
const (
	portFirst = 20_000
	portCount = 10_000
)

// Port returns a port of loopback that nobody listens on.
func Port(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := portFirst + rand.IntN(portCount)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatalf("there is no free port in %d from %d on", portCount, portFirst)
	return 0
}
