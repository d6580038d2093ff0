//go:build unix

package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"deadman/internal/store/storetest"
	"deadman/server"
)

// newProxiedPostgres is a database behind a proxy that can be stopped.
func newProxiedPostgres(t *testing.T) (proxy *toxiproxy.Proxy, address string) {
	t.Helper()
	at, err := url.Parse(storetest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", at.Host)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	at.Host = proxy.Listen
	return proxy, at.String()
}

// waitUntilReady waits until a node serves.
func waitUntilReady(t *testing.T, n *node, ready <-chan server.Endpoints) {
	t.Helper()
	select {
	case <-ready:
	case err := <-n.ended:
		t.Fatalf("serve: %v", err)
	case <-time.After(within):
		t.Fatal("it does not serve although the database is there again")
	}
}

// A starting node retries a database that fails after it was opened. The channels file is a pipe, so that the node
// blocks there until the test writes.
func TestStartWaitsForDatabaseThatDisconnects(t *testing.T) {
	t.Parallel()
	proxy, database := newProxiedPostgres(t)
	pipe := filepath.Join(t.TempDir(), "notify.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	n, ready := startNode(t, server.Config{DatabaseURL: database, NATSURL: startNATS(t), Notify: pipe})
	hand := func(while func()) {
		t.Helper()
		file, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the node reads
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		while()
		if _, err := file.WriteString("channels: {hook: {kind: webhook, url: http://127.0.0.1:9/}}\nroutes: [{to: hook}]\n"); err != nil {
			t.Fatal(err)
		}
	}
	hand(proxy.Stop)
	n.eventually("the log names what the node waits for", func() bool { return strings.Contains(n.log.String(), "not there any more") })
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	hand(func() {})
	waitUntilReady(t, n, ready)
}

// A file that became a named pipe is refused, and the next reload works.
func TestReloadDoesNotWaitForPipe(t *testing.T) {
	t.Parallel()
	file, again := filepath.Join(t.TempDir(), "notify.yaml"), make(chan struct{})
	write := func() {
		if err := os.WriteFile(file, []byte("channels: {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	n := startReadyNode(t, server.Config{Notify: file, Reload: again})
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	again <- struct{}{}
	n.eventually("the pipe is refused", func() bool { return strings.Contains(n.log.String(), "not a regular file") })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write()
	again <- struct{}{}
	n.eventually("the file is read", func() bool { return strings.Contains(n.log.String(), `read again","component":"files","file":"`+file) })
}

// warningHandler calls a function before the first log record with a text is handled.
type warningHandler struct {
	slog.Handler
	wantText string
	call     func()
}

// Handle implements slog.Handler.
func (h *warningHandler) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.wantText) && h.call != nil {
		h.call()
		h.call = nil
	}
	return h.Handler.Handle(ctx, r)
}

// The same applies to the token lookup, the last step before the node serves.
func TestStartWaitsForDatabaseLostBeforeAccessGate(t *testing.T) { // not parallel: it needs a default port for itself
	if taken, err := net.Listen("tcp", server.DefaultHTTPAddr); err == nil { // forces the move to another address, with its log message
		t.Cleanup(func() { _ = taken.Close() })
	}
	proxy, database := newProxiedPostgres(t)
	n, ready := startNodeLogging(t, server.Config{DatabaseURL: database, NATSURL: startNATS(t), HTTPAddr: byDefault}, func(h slog.Handler) slog.Handler {
		return &warningHandler{h, "the default HTTP address is taken", proxy.Stop}
	})
	n.eventually("the log names what the node waits for", func() bool { return strings.Contains(n.log.String(), "not there any more") })
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	waitUntilReady(t, n, ready)
}
