package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/web"
)

// respondHeld responds as a node does while the event of a tick may be in transit.
func respondHeld(w http.ResponseWriter, retryAfter string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", retryAfter)
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, `{"title": "Service Unavailable", "status": 503, "detail": "the event may be in transit"}`)
}

// heldProxy passes requests on to a node, and answers bulk requests with 503 as held says, by their number from 1.
func heldProxy(t *testing.T, n *inProcessNode, retryAfter string, held func(request int64) bool) (requests *atomic.Int64) {
	t.Helper()
	node, err := url.Parse(n.at.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	requests = new(atomic.Int64)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(node) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/bulk") && held(requests.Add(1)) {
			respondHeld(w, retryAfter)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	n.env = []string{"DEADMAN_URL=" + s.URL}
	return requests
}

// TestHeldFileIsSentAgain checks that a part of a file that the node cannot take at the moment is sent again, and counted once.
func TestHeldFileIsSentAgain(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	requests := heldProxy(t, n, "1", func(request int64) bool { return request <= 2 })
	got := n.run(`{"rule": "report-due", "id": "a", "schedule": "@daily"}`, "schedule", "put", "-f", "-")
	got.check(t, []string{"a held file"}, 0, "created: 1; updated: 0\n", "in transit", "attempt 2 of 6 in ", "attempt 3 of 6 in ")
	if requests.Load() != 3 {
		t.Errorf("%d requests, want 3", requests.Load())
	}
}

// TestHeldFileIsGivenUp checks that a file whose second part is not accepted says what took effect, and from which line on to
// look; a node that requests a long pause is not waited for.
func TestHeldFileIsGivenUp(t *testing.T) {
	t.Parallel()
	n := newScheduleNode(t)
	requests := heldProxy(t, n, "31", func(request int64) bool { return request >= 2 })
	var lines strings.Builder
	for i := range web.MaxBulkLines + 1 {
		fmt.Fprintf(&lines, `{"rule": "report-due", "id": "%d", "schedule": "@daily"}`+"\n", i)
	}
	file := filepath.Join(t.TempDir(), "schedules.ndjson")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	n.expect(1, []string{"schedule", "put", "-f", file}, "in transit", "given up after 1 attempt", "10000 schedules changed before the error", "the lines from 10,001 on are not confirmed", "send the same file again")
	if requests.Load() != 2 {
		t.Errorf("%d requests, want 2", requests.Load())
	}
}

// TestPausesBetweenAttempts checks that the pauses between attempts double, have a part of chance, and are at least as long as
// the node requests; and that the attempts are bounded.
func TestPausesBetweenAttempts(t *testing.T) {
	t.Parallel()
	for retryAfter, want := range map[string][]time.Duration{
		"":   {1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second},
		"3":  {3 * time.Second, 3 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second},
		"30": {30 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second},
		"31": nil,
	} {
		requests := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests++
			respondHeld(w, retryAfter)
		}))
		t.Cleanup(s.Close)
		c, err := newClient(s.URL, "the test", "")
		if err != nil {
			t.Fatal(err)
		}
		var floors []time.Duration
		varies := false
		l := &load{io: newCLI(nil, &bytes.Buffer{}, &bytes.Buffer{}, nil), c: c, total: &changedSchedules{}, pause: func(_ context.Context, wait time.Duration) error {
			least := time.Duration(0)
			if i := len(floors); i < len(want) && wait >= want[i] && wait <= want[i]*3/2 {
				least = want[i]
			}
			varies = varies || wait != least
			floors = append(floors, least)
			return nil
		}}
		_, err = l.post(t.Context(), []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), "in transit") || requests != len(want)+1 {
			t.Errorf("Retry-After %q: %v after %d requests, want %d", retryAfter, err, requests, len(want)+1)
		}
		if diff := cmp.Diff(want, floors); diff != "" {
			t.Errorf("Retry-After %q: the pauses are at least (-want +got):\n%s", retryAfter, diff)
		}
		if want != nil && !varies {
			t.Errorf("Retry-After %q: the pauses have no part of chance", retryAfter)
		}
	}
}
