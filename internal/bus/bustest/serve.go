// Package bustest holds what tests with NATS servers need.
package bustest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus/bustest/freeport"
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

// removeWithin bounds how long a server that was shut down may still write into its folder.
const removeWithin = 10 * time.Second

// Dir is a folder for a server of this process, and is gone after the test. A server that was
// shut down may be about to make the folder of a batch that it was in the middle of, which
// t.TempDir would fail on.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "deadman-nats-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		again, late := time.NewTicker(10*time.Millisecond), time.After(removeWithin)
		defer again.Stop()
		for {
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			select {
			case <-again.C:
			case <-late:
				t.Error(err)
				return
			}
		}
	})
	return dir
}

// JetStream connects to a broker as somebody beside deadman does, until the test ends.
func JetStream(t testing.TB, url string, how ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, how...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Log collects what is logged, for a test to read. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	said strings.Builder
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

// LogIn is the address of the server of a node with a user of it and its secret, as the data
// folder of the node has it. Without such a folder, the server is elsewhere, and the address is
// returned as it is.
func LogIn(t testing.TB, dataDir, url, user string) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(dataDir, "nats-users", user))
	if errors.Is(err, fs.ErrNotExist) {
		return url
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(url, "://", "://"+user+":"+strings.TrimSpace(string(secret))+"@", 1)
}

// Port returns a free TCP port of the loopback address, outside the range of the local ports of connections.
func Port(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
