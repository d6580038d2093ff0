package bustest

import (
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Options are those of a NATS server with JetStream on a free port of loopback.
func Options(t testing.TB) *natsserver.Options {
	return &natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: Dir(t)}
}

// Serve runs a NATS server until the test ends.
func Serve(t testing.TB, o *natsserver.Options) *natsserver.Server {
	t.Helper()
	s, err := natsserver.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(2 * time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

// As is the address of a server for a user whose password is "secret".
func As(s *natsserver.Server, user string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+":secret@", 1)
}
