package bus_test

import (
	"errors"
	"net"
	"testing"

	"deadman/internal/bus"
)

// TestBrokerDisconnect checks that a broker hanging up during the connection attempt, as one that just died, counts
// as unreachable.
func TestBrokerDisconnect(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"at once":               "",
		"in its first line":     `INFO {"server_id":`,
		"after its first line":  "INFO {\"server_id\":\"N\",\"version\":\"2.12.0\",\"max_payload\":1048576,\"headers\":true}\r\n",
		"with half of an error": "-ER",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = conn.Write([]byte(first))
					_ = conn.Close()
				}
			}()
			b, err := bus.Connect(t.Context(), bus.Options{URL: "nats://" + l.Addr().String(), Log: discardLog()})
			if err == nil {
				b.Close()
			}
			if !errors.Is(err, bus.ErrUnreachable) {
				t.Errorf("%v", err)
			}
		})
	}
}
