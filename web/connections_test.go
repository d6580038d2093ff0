package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// serveBounded starts a server with bounds on its connections.
func serveBounded(t *testing.T, c web.Connections) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	failOn(t, err)
	c.Log = discardLog
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	go func() { ended <- web.Serve(ctx, c.Bound(ln), h, time.Minute) }()
	t.Cleanup(func() {
		stop()
		failOn(t, <-ended)
	})
	return ln.Addr().String()
}

// requestOver opens a connection and sends one request.
func requestOver(t *testing.T, addr string) (net.Conn, answer, web.Problem) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	failOn(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	failOn(t, err)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	failOn(t, err)
	defer got.Body.Close()
	var p web.Problem
	if got.StatusCode != http.StatusNoContent {
		failOn(t, json.NewDecoder(got.Body).Decode(&p))
		failOn(t, conn.Close())
	}
	return conn, answer{Response: got}, p
}

func TestConnectionsAreBounded(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, c := range []struct {
		name   string
		bounds web.Connections
		status int // of the third connection; 0 if no bound applies
		names  string
	}{
		{"of the node", web.Connections{Max: 2}, 503, "--connections"},
		{"of a client", web.Connections{Max: 9, MaxPerAddr: 2}, 429, "--client-connections"},
		{"of a proxy", web.Connections{Max: 9, MaxPerAddr: 2, Proxies: loopback}, 0, ""},
		{"of a proxy, and of the node", web.Connections{Max: 2, MaxPerAddr: 2, Proxies: loopback}, 503, "--connections"},
		{"none", web.Connections{}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := serveBounded(t, c.bounds)
			first, _, _ := requestOver(t, addr)
			if _, a, _ := requestOver(t, addr); a.StatusCode != http.StatusNoContent {
				t.Fatalf("the second: %d", a.StatusCode)
			}
			_, a, p := requestOver(t, addr)
			if c.status == 0 {
				if a.StatusCode != http.StatusNoContent {
					t.Errorf("the third: %d %+v", a.StatusCode, p)
				}
				return
			}
			if a.StatusCode != c.status || a.Header.Get("Retry-After") == "" || !a.Close || !strings.Contains(p.Detail, c.names) || !strings.Contains(p.Detail, " 2 ") {
				t.Fatalf("the third: %d %v %+v", a.StatusCode, a.Header, p)
			}
			failOn(t, first.Close())
			for { // the node detects the end a moment later
				if _, a, _ := requestOver(t, addr); a.StatusCode == http.StatusNoContent {
					break
				}
			}
		})
	}
}
