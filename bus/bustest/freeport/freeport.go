// Package freeport finds ports for servers of tests.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports that the system gives to nobody by itself. One that it gave away for a moment may be
// the near end of somebody's connection when a server is to listen on it, for the first time or
// after it was killed.
const (
	first = 20_000
	count = 10_000
)

// Find returns a port of loopback that nobody listens on.
func Find() (int, error) {
	for range 100 {
		port := first + rand.IntN(count)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("there is no free port in %d from %d on", count, first)
}
