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
	ask := func(header []string, path string, status int) answer {
		t.Helper()
		a := requestPath(t, s.Server, "GET", path, "", header...)
		if a.StatusCode != status {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		return a
	}
	page := append([]string{"Accept", "text/html"}, greedy...)
	ask(page, "/", 200) // many requests to the API within it, counted once
	for range 3 {
		ask(greedy, "/api/v1/rules", 200)
	}
	a := ask(greedy, "/api/v1/rules", 429)
	checkProblem(t, a, 429, web.TooManyRequests, "--token-rate")
	if a.Header.Get("Retry-After") != "1" {
		t.Errorf("%v", a.Header)
	}
	ask(page, "/", 429)
	ask(other, "/api/v1/rules", 200)
	ask(greedy, "/healthz", 200)
	ask(greedy, "/readyz", 200)
	now.Add(int64(time.Second / 2))
	ask(greedy, "/api/v1/rules", 200)
	ask(greedy, "/api/v1/rules", 429)
	now.Add(-int64(time.Hour)) // the database's clock was set back
	ask(other, "/api/v1/rules", 200)
	now.Add(int64(time.Hour + time.Second))
	ask(greedy, "/api/v1/rules", 200)
}
