package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"
)

// delayingProxy returns the address of a proxy that delays the selected requests.
func delayingProxy(t *testing.T, home string, slow func(r *http.Request) bool, wait time.Duration) string {
	t.Helper()
	at, err := url.Parse(home)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.FlushInterval = -1 // each write at once: streams go through it
	line := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow(r) {
			timeout := time.NewTimer(wait)
			defer timeout.Stop()
			select {
			case <-timeout.C:
			case <-r.Context().Done():
				return
			}
		}
		r.Host = at.Host
		r.Header["X-Forwarded-For"] = nil // an open node answers no proxy
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { line.CloseClientConnections(); line.Close() })
	return line.URL
}

// TestLiveUpdatesWithSlowScript checks that a page becomes live even if its script arrives late.
func TestLiveUpdatesWithSlowScript(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	script := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "hx-sse") }
	b := open(t, delayingProxy(t, home, script, time.Second), 1200, 900)
	b.visit("/jobs")
	b.waitForText("No pending checks")
	send(t, home, "orders.created", `{"id": "1234", "total": 1}`)
	b.waitForText("order 1234")
}

// TestClosedPagesReleaseTheirStreams checks that quick navigation through many pages waits for no stream of a left page: a
// browser has six connections per host, and keeps left pages.
func TestClosedPagesReleaseTheirStreams(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	stream := func(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/event-stream") }
	b := open(t, delayingProxy(t, home, stream, 2*within), 1200, 900)
	for range 2 {
		for _, path := range []string{"/", "/jobs", "/alerts", "/rules", "/history", "/dead-letters", "/health"} {
			b.visit(path)
		}
	}
}
