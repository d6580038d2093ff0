package bus_test

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

const token = "a-token-without-a-pattern"

// TestServerWithToken checks that a server with a token rejects clients without it, but accepts the node.
func TestServerWithToken(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "token", token+"\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	log := &bustest.Log{}
	s, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "0.0.0.0:0", TokenFile: file, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !strings.Contains(log.String(), "chmod 600") || strings.Contains(log.String(), token) {
		t.Errorf("of a token that everybody may read, the text is %s", log)
	}
	publish(t, connectBound(t, s), "orders.created")

	url := strings.Replace(s.ClientURL(), "0.0.0.0", "127.0.0.1", 1)
	for _, who := range []bus.Identity{{}, {Token: write(t, t.TempDir(), "other", "another-token-of-a-client")}} {
		if _, err := bus.Connect(t.Context(), bus.Options{URL: url, Identity: who, Log: discardLog()}); !errors.Is(err, nats.ErrAuthorization) || !strings.Contains(err.Error(), "DEADMAN_NATS_TOKEN_FILE") {
			t.Errorf("with %+v: %v", who, err)
		}
	}
	b, err := bus.Connect(t.Context(), bus.Options{URL: url, Identity: bus.Identity{Token: file}, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

// connectBound connects within the process and captures orders.created.
func connectBound(t *testing.T, s *bus.Server) *bus.Bus {
	t.Helper()
	b := connect(t, s)
	bind(t, b, "orders.created")
	return b
}

func TestBeyondLoopbackTokenIsNeeded(t *testing.T) {
	t.Parallel()
	short := write(t, t.TempDir(), "short", "short")
	for name, c := range map[string]struct {
		options  bus.ServerOptions
		is       error // nil: it starts
		wantText string
	}{
		"everywhere":             {bus.ServerOptions{Addr: ":0"}, bus.ErrListen, "--insecure"},
		"everywhere, by address": {bus.ServerOptions{Addr: "0.0.0.0:0"}, bus.ErrListen, "DEADMAN_NATS_TOKEN_FILE"},
		"a name of elsewhere":    {bus.ServerOptions{Addr: "nowhere.invalid:0"}, bus.ErrListen, "nowhere.invalid"},
		"insecure":               {bus.ServerOptions{Addr: "0.0.0.0:0", Insecure: true}, nil, ""},
		"a short token":          {bus.ServerOptions{Addr: "127.0.0.1:0", TokenFile: short}, bus.ErrIdentity, "least is 16"},
		"no token file":          {bus.ServerOptions{Addr: "127.0.0.1:0", TokenFile: short + "er"}, bus.ErrIdentity, short + "er"},
		"loopback":               {bus.ServerOptions{Addr: "localhost:0"}, nil, ""},
	} {
		c.options.Dir, c.options.Log = bustest.Dir(t), discardLog()
		s, err := bus.StartServer(c.options)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokenInURLIsNotShown checks that the log never contains a token from the URL, even after a reconnect.
func TestTokenInURLIsNotShown(t *testing.T) {
	t.Parallel()
	o := bus.ServerOptions{Dir: t.TempDir(), Addr: "127.0.0.1:0", TokenFile: write(t, t.TempDir(), "token", token), Log: discardLog()}
	s, err := bus.StartServer(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := &bustest.Log{}
	b, err := bus.Connect(t.Context(), bus.Options{URL: strings.Replace(s.ClientURL(), "://", "://"+token+"@", 1), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s.Close()
	o.Addr = strings.TrimPrefix(s.ClientURL(), "nats://")
	if s, err = bus.StartServer(o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	testwait.Until(t, "the connection is back", func() bool { return strings.Contains(log.String(), "is back") })
	if strings.Contains(log.String(), token) {
		t.Errorf("the log has the token: %s", log)
	}
}

// TestPasswordInURLIsNotShown checks that an invalid address is not quoted, because an unescaped password may be
// the cause.
func TestPasswordInURLIsNotShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"nats://u:secret%word@127.0.0.1:4222", "nats://u:secret/word@127.0.0.1:4222", "u:secretword@127.0.0.1:port", "nats://127.0.0.1:4222, nats://u:secret word@[::1",
	} {
		_, err := bus.Connect(t.Context(), bus.Options{URL: url, Log: discardLog()})
		if !errors.Is(err, bus.ErrURL) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "%XX") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
