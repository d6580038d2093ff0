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

// A page is live also where what makes it so comes late, as over a slow line.
func TestSlowScriptsAreLive(t *testing.T) {
	home := serve(t, orders)
	at, err := url.Parse(home)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.FlushInterval = -1 // each write at once: streams go through it
	line := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "hx-sse") {
			late := time.NewTimer(time.Second)
			defer late.Stop()
			select {
			case <-late.C:
			case <-r.Context().Done():
			}
		}
		r.Host = at.Host
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { line.CloseClientConnections(); line.Close() })
	b := open(t, line.URL, 1200, 900)
	b.visit("/jobs")
	b.shows("No job is waiting")
	send(t, home, "orders.created", `{"id": "1234", "total": 1}`)
	b.shows("order 1234")
}
