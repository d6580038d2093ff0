// Package freeport finds free ports for servers in tests.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Range of the ports. It lies outside the system's range of local ports, because a connection that used the server's
// port would keep the server from listening, at its start and after a kill.
const (
	first = 20_000
	count = 10_000
)

// Find returns a free TCP port of the loopback address.
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
