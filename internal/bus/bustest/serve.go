// Package bustest helps tests with NATS servers.
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

// Options returns the options of a NATS server with JetStream on a free loopback port.
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

// As returns the server's address with a user whose password is "secret".
func As(s *natsserver.Server, user string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+":secret@", 1)
}

// removeWithin bounds the time that a stopped server may still write to its folder.
const removeWithin = 10 * time.Second

// Dir returns a folder for a server in this process, and removes it after the test. A stopped server may still create
// the folder of an unfinished batch, which would make t.TempDir fail.
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

// JetStream connects to a broker as a separate client until the test ends.
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

// Log collects log output for a test. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// LogIn returns the URL with a user of the node's server and its secret from the node's data folder. If the data
// folder has no such secret, the server is external, and the URL is returned unchanged.
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
