package web_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

// TestReadinessHasNamesForReadersAlone checks that every caller gets the readiness and the kinds of broken conditions,
// but only callers that may read all rules get names.
func TestReadinessHasNamesForReadersAlone(t *testing.T) {
	const name = "these sources do not answer: acme-ledger"
	s := newFixture(t, closedNode, func(o *web.Options, _ *fixture) {
		o.Health = func(context.Context) []web.Condition {
			return []web.Condition{{Name: "database", OK: true, Vital: true, Detail: "answers"}, {Name: "sources", Detail: name}}
		}
	})
	const public = `{"ready":true,"healthy":false,"conditions":[{"name":"sources","ok":false,"required":false,"runbook":"/docs/operations/troubleshooting#condition-sources"}]}` + "\n"
	for who, header := range map[string][]string{
		"absent": nil, "a wrong token": {"Authorization", "Bearer dm_wrong"}, "no reader": s.newToken("ci", "", access.Events),
		"a reader of some rules": s.newToken("acme", "acme-", access.Rules),
	} {
		for path, status := range map[string]int{"/readyz": 200, "/readyz?all": 503} {
			if a := requestPath(t, s.Server, "GET", path, "", header...); a.StatusCode != status || a.body != public {
				t.Errorf("%s receives at %s: %d %s", who, path, a.StatusCode, a.body)
			}
		}
	}
	for who, header := range map[string][]string{"a reader": s.newToken("reader", "", access.Read), "an admin": s.newToken("ops", "", access.Admin)} {
		if a := requestPath(t, s.Server, "GET", "/readyz", "", header...); a.StatusCode != 200 || !strings.Contains(a.body, name) || !strings.Contains(a.body, "answers") {
			t.Errorf("%s receives %d %s", who, a.StatusCode, a.body)
		}
	}
	open := newFixture(t, func(o *web.Options, _ *fixture) {
		o.Health = func(context.Context) []web.Condition { return []web.Condition{{Name: "sources", Detail: name}} }
	})
	if a := requestPath(t, open.Server, "GET", "/readyz", ""); !strings.Contains(a.body, name) {
		t.Errorf("an open node answers %s", a.body)
	}
}

// TestReadinessIsCachedForAnonymousCallers checks that for callers without a token the node checks its database
// and broker at most once a second.
func TestReadinessIsCachedForAnonymousCallers(t *testing.T) {
	var readinessChecks atomic.Int64
	var now atomic.Int64
	h := web.New(web.Options{
		Health: func(context.Context) []web.Condition {
			readinessChecks.Add(1)
			return []web.Condition{{Name: "database", OK: readinessChecks.Load() != 2, Vital: true}}
		},
		Log: discardLog, Now: func() time.Time { return time.Unix(0, now.Load()) },
	})
	send := func(status int, want int64) {
		t.Helper()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
				if w.Code != status {
					t.Errorf("status %d, want %d", w.Code, status)
				}
			})
		}
		all.Wait()
		if got := readinessChecks.Load(); got != want {
			t.Errorf("%d checks, want %d", got, want)
		}
	}
	now.Store(int64(time.Hour))
	send(200, 1)
	now.Add(int64(time.Second - 1))
	send(200, 1)
	now.Add(1)
	send(503, 2)
	now.Add(-int64(time.Minute)) // the database's clock was set back
	send(200, 3)
}

// TestReadinessCauseIsLogged checks that the cause of a broken condition is logged once for each change, and not part of
// the answer.
func TestReadinessCauseIsLogged(t *testing.T) {
	const secret = "dial error: user=app host=10.0.0.7:5432"
	condition := web.Condition{Name: "database", Detail: "the database does not answer; see the log"}
	var log bytes.Buffer
	now := time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC)
	h := web.New(web.Options{
		Health: func(context.Context) []web.Condition { return []web.Condition{condition} },
		Open:   allowAll,
		Log:    slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now },
	})
	probe := func(wantLogged ...string) {
		t.Helper()
		log.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
		if body := w.Body.String(); strings.Contains(body, "10.0.0.7") || !strings.Contains(body, condition.Detail) {
			t.Errorf("anonymous callers receive %s", body)
		}
		if lines := strings.Count(log.String(), "\n"); lines != min(len(wantLogged), 1) {
			t.Errorf("%d lines are logged: %s", lines, log.String())
		}
		for _, part := range wantLogged {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log does not contain %q: %s", part, log.String())
			}
		}
	}
	condition.Err = errors.New(secret)
	probe("level=ERROR", "condition=database", secret)
	probe()
	condition.Err = errors.New("connection reset")
	probe() // within the interval it is the same condition
	now = now.Add(time.Minute)
	probe("level=ERROR", "connection reset")
	condition = web.Condition{Name: "database", OK: true, Detail: "answers"}
	probe("level=INFO", "in order again")
	probe()
	condition = web.Condition{Name: "database", Detail: "the database does not answer; see the log", Err: errors.New(secret)}
	probe("level=ERROR", secret)
}
