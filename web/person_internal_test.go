package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"deadman/internal/access"
	"deadman/internal/logins"
)

// TestProxyUserStreamLastsOneMinute checks that a stream of a person named by a proxy lasts a minute, since the node
// cannot check the person's permission, and that of a token continues.
func TestProxyUserStreamLastsOneMinute(t *testing.T) {
	header := logins.Header{Name: "X-User", Groups: "X-Groups", Separator: ","}
	config := &logins.Config{Header: &header, Grants: access.Grants{{Groups: []string{"sre"}, Token: access.TokenRequest{Scopes: []access.Scope{access.Read}}}}}
	ann := access.Person{By: access.ByProxy, Name: "ann", Groups: []string{"sre"}}
	for name, c := range map[string]struct {
		open bool
		want time.Duration
	}{"a person": {false, maxProxiedStream}, "another": {true, 10 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			by := &responder{log: slog.New(slog.DiscardHandler)}
			auth := newAuthenticator(Options{Logins: func() *logins.Config { return config }, Open: func(context.Context) (bool, error) { return c.open, nil }}, by)
			a := &streamLimit{responder: by, auth: auth, livePages: newStreamSemaphore("live pages", 1, 1)}
			v := principal{open: true}
			ctx := context.WithValue(t.Context(), namedKey{}, named{person: &ann})
			if !c.open {
				var err error
				if v, err = granted(config, ann); err != nil {
					t.Fatal(err)
				}
			}
			startedAt := time.Now()
			r := httptest.NewRequestWithContext(context.WithValue(ctx, visitorKey{}, v), "GET", "/jobs?live=1", nil)
			a.streaming(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Minute):
				}
			})).ServeHTTP(httptest.NewRecorder(), r)
			if took := time.Since(startedAt); took < c.want || took > c.want+5*time.Second {
				t.Errorf("the stream of %s lasts %s, want %s", name, took, c.want)
			}
		})
	}
}

// TestStreamEndsWithFirstRefusal checks that a stream of a person without permissions ends at the first check, as
// that of a revoked token.
func TestStreamEndsWithFirstRefusal(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		synctest.Test(t, func(t *testing.T) {
			startedAt := time.Now()
			follow(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/?live=1", nil),
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
				func(context.Context) error { return problem(status, "no") })
			if took := time.Since(startedAt); took != streamCheckInterval {
				t.Errorf("with %d the stream ends after %s", status, took)
			}
		})
	}
}
