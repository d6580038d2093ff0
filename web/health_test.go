package web_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// Why a node is not ready is for the log, once a change; the answer is for everybody.
func TestWhyNotReadyIsLogged(t *testing.T) {
	const secret = "dial error: user=app host=10.0.0.7:5432"
	condition := web.Condition{Name: "database", Detail: "the database does not answer; see the log"}
	var log bytes.Buffer
	now := time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC)
	h := web.New(web.Options{
		Health: func(context.Context) []web.Condition { return []web.Condition{condition} },
		Log:    slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return now },
	})
	probe := func(wantLogged ...string) {
		t.Helper()
		log.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
		if body := w.Body.String(); strings.Contains(body, "10.0.0.7") || !strings.Contains(body, condition.Detail) {
			t.Errorf("everybody is told %s", body)
		}
		if lines := strings.Count(log.String(), "\n"); lines != min(len(wantLogged), 1) {
			t.Errorf("%d lines are logged: %s", lines, log.String())
		}
		for _, part := range wantLogged {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log does not say %q: %s", part, log.String())
			}
		}
	}
	condition.Err = errors.New(secret)
	probe("level=ERROR", "condition=database", secret)
	probe()
	condition.Err = errors.New("connection reset")
	probe() // so soon, it is the same trouble
	now = now.Add(time.Minute)
	probe("level=ERROR", "connection reset")
	condition = web.Condition{Name: "database", OK: true, Detail: "answers"}
	probe("level=INFO", "in order again")
	probe()
	condition = web.Condition{Name: "database", Detail: "the database does not answer; see the log", Err: errors.New(secret)}
	probe("level=ERROR", secret)
}
