package web_test

import (
	"sync/atomic"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

func TestRequestsOfTokenAreBounded(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	s := newFixture(t, closedNode, func(o *web.Options, _ *fixture) {
		o.TokenRate = 2
		o.Now = func() time.Time { return time.Unix(0, now.Load()) }
	})
	greedy, other := s.newToken("greedy", "", access.Read), s.newToken("other", "", access.Read)
	send := func(header []string, path string, status int) answer {
		t.Helper()
		a := requestPath(t, s.Server, "GET", path, "", header...)
		if a.StatusCode != status {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		return a
	}
	page := append([]string{"Accept", "text/html"}, greedy...)
	send(page, "/", 200) // many requests to the API within it, counted once
	for range 3 {
		send(greedy, "/api/v1/rules", 200)
	}
	a := send(greedy, "/api/v1/rules", 429)
	checkProblem(t, a, 429, web.TooManyRequests, "--token-rate")
	if a.Header.Get("Retry-After") != "1" {
		t.Errorf("%v", a.Header)
	}
	send(page, "/", 429)
	send(other, "/api/v1/rules", 200)
	send(greedy, "/healthz", 200)
	send(greedy, "/readyz", 200)
	now.Add(int64(time.Second / 2))
	send(greedy, "/api/v1/rules", 200)
	send(greedy, "/api/v1/rules", 429)
	now.Add(-int64(time.Hour)) // the database's clock was set back
	send(other, "/api/v1/rules", 200)
	now.Add(int64(time.Hour + time.Second))
	send(greedy, "/api/v1/rules", 200)
}
