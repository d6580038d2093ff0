package bus

import (
	"testing"

	"deadman/internal/bus/bustest"
)

// TestEmbeddedServerSyncsEveryWrite checks that every write is synced. The server's default would acknowledge an
// event up to two minutes before it is on disk.
func TestEmbeddedServerSyncsEveryWrite(t *testing.T) {
	s, err := StartServer(ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c := s.nats.JetStreamConfig(); c == nil || !c.SyncAlways {
		t.Errorf("JetStream runs with %+v", c)
	}
}
