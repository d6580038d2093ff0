package bus_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testdisk"
	"deadman/internal/testwait"
)

// TestMain ignores goroutines that a stopped server of a cluster, or a proxy after cutting a connection, sometimes
// leaves behind.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(testdisk.InMemory(m),
		goleak.IgnoreAnyFunction(server+".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(server+"/ats.Register.func1"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
}

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve starts an embedded server on a free port.
func serve(t *testing.T, dir string) *bus.Server {
	t.Helper()
	s, err := bus.StartServer(bus.ServerOptions{Dir: dir, Addr: "127.0.0.1:0", Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// connect connects within the process.
func connect(t *testing.T, s *bus.Server, change ...func(*bus.Options)) *bus.Bus {
	t.Helper()
	o := bus.Options{InProcess: s, Name: t.Name(), Log: discardLog()}
	for _, c := range change {
		c(&o)
	}
	b, err := bus.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// makeStream creates a stream of another owner.
func makeStream(t *testing.T, js jetstream.JetStream, cfg jetstream.StreamConfig) {
	t.Helper()
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func TestRestartKeepsEvents(t *testing.T) {
	dir := bustest.Dir(t)
	s := serve(t, dir)
	b := connect(t, s)
	bind(t, b, "orders.created")
	for i := range 3 {
		if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", fmt.Appendf(nil, "%d", i), nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	s.Close()

	b = connect(t, serve(t, dir))
	if got := drain(t, b, bus.EventsStream, 0, "orders.created"); len(got) != 3 {
		t.Errorf("after a restart the stream has %d events, want 3", len(got))
	}
}

func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()

	_, err = bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: addr, Log: discardLog()})
	if !errors.Is(err, bus.ErrListen) || !strings.Contains(err.Error(), addr) {
		t.Errorf("a configured port that is in use: %v", err)
	}
	logged := &bustest.Log{}
	s, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: addr, Move: true, Log: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.PortWasTaken() || strings.Contains(s.ClientURL(), addr) || !strings.Contains(logged.String(), "taken") {
		t.Errorf("moved %v to %s, saying %q", s.PortWasTaken(), s.ClientURL(), logged)
	}
	connectURL(t, s.ClientURL())
}

func connectURL(t *testing.T, url string) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Options{URL: url, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestBadAddress(t *testing.T) {
	for _, addr := range []string{"", "4222", "localhost:nats", "localhost:70000", "localhost:-1"} {
		if s, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: addr, Log: discardLog()}); !errors.Is(err, bus.ErrListen) {
			t.Errorf("address %q: %v", addr, err)
			s.Close()
		}
	}
}

func TestUnreachableBroker(t *testing.T) {
	for _, url := range []string{"nats://127.0.0.1:1", "nats://nowhere.invalid:4222"} {
		if _, err := bus.Connect(t.Context(), bus.Options{URL: url, Log: discardLog()}); !errors.Is(err, bus.ErrUnreachable) {
			t.Errorf("no server listens at %s: %v", url, err)
		}
	}
	_, err := bus.Connect(t.Context(), bus.Options{URL: "nats://127.0.0.1:1", Identity: bus.Identity{Creds: "no-such.creds"}, Log: discardLog()})
	if errors.Is(err, bus.ErrUnreachable) || err == nil || !strings.Contains(err.Error(), "no-such.creds") {
		t.Errorf("a credentials file that is not there is not worth waiting for: %v", err)
	}
}

func TestReconnects(t *testing.T) {
	dir := bustest.Dir(t)
	s := serve(t, dir)
	b := connectURL(t, s.ClientURL())
	addr := strings.TrimPrefix(s.ClientURL(), "nats://")
	s.Close()
	testwait.Until(t, "the loss is noticed", func() bool { return !b.Conn.Connected() })
	if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", nil, nil, ""); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("an event without a broker: %v", err)
	}

	again, err := bus.StartServer(bus.ServerOptions{Dir: dir, Addr: addr, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	testwait.Until(t, "the connection is back", b.Conn.Connected)
	bind(t, b, "orders.created")
}

func TestUnsupportedScheme(t *testing.T) {
	for _, url := range []string{"http://me:secret@127.0.0.1:1", "nats://127.0.0.1:1, postgres://127.0.0.1:1"} {
		_, err := bus.Connect(t.Context(), bus.Options{URL: url, Log: discardLog()})
		if !errors.Is(err, bus.ErrURL) || errors.Is(err, bus.ErrUnreachable) ||
			!strings.Contains(err.Error(), "DEADMAN_NATS_URL") || !strings.Contains(err.Error(), "nats://") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestUncleanStop checks that an index older than its messages is recovered and logged in one plain line.
func TestUncleanStop(t *testing.T) {
	dir := bustest.Dir(t)
	s := serve(t, dir)
	b := connect(t, s)
	bind(t, b, "orders.created")
	publish := func(b *bus.Bus) {
		t.Helper()
		if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", []byte("1"), nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	publish(b)
	b.Close()
	s.Close()
	old := make(map[string][]byte) // the indexes as after a kill: older than the messages
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "index.db" {
			old[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || len(old) == 0 {
		t.Fatalf("%d indexes: %v", len(old), err)
	}
	s = serve(t, dir)
	b = connect(t, s)
	publish(b)
	b.Close()
	s.Close()
	for path, data := range old {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	logged := &bustest.Log{}
	again, err := bus.StartServer(bus.ServerOptions{Dir: dir, Addr: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if strings.Contains(logged.String(), "level=WARN") || strings.Count(logged.String(), "not a clean one") != 1 {
		t.Errorf("logged %s", logged)
	}
	if got := drain(t, connect(t, again), bus.EventsStream, 0, "orders.created"); len(got) != 2 {
		t.Errorf("%d events, want 2", len(got))
	}
}
