package web_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/internal/store"
	"deadman/web"
)

// requestFrom sends a request as a client at an address.
func (s *fixture) requestFrom(addr, method, path, body string, header ...string) answer {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = addr + ":4711"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Config.Handler.ServeHTTP(w, r)
	return answer{w.Result(), w.Body.String()}
}

// countAfter is a real store that counts its queries for secrets.
type countAfter struct {
	*store.Store
	requests atomic.Int64
}

func (c *countAfter) TokenByHash(ctx context.Context, hash [32]byte) (access.Token, error) {
	c.requests.Add(1)
	return c.Store.TokenByHash(ctx, hash)
}

func (c *countAfter) SessionByHash(ctx context.Context, hash [32]byte) (access.Session, error) {
	c.requests.Add(1)
	return c.Store.SessionByHash(ctx, hash)
}

// TestWrongTokensAreBounded checks that wrong tokens of one address get 401 a few times and then 429, that only the
// first ones cost a query, and that valid tokens of that address and other addresses are unaffected.
func TestWrongTokensAreBounded(t *testing.T) {
	var log bytes.Buffer
	var db *countAfter
	s := newFixture(t, func(o *web.Options, s *fixture) {
		db = &countAfter{Store: s.store}
		o.Open, o.Keeper = nil, access.NewTokens(db, time.Now)
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		s.keeper = o.Keeper
	})
	const here = "192.0.2.7"
	good := s.newToken("good", "", access.Admin)
	if a := s.requestFrom(here, "GET", "/api/v1/jobs", "", good...); a.StatusCode != 200 {
		t.Fatal(a.body)
	}
	form := formOf
	for name, try := range map[string]func(addr string, i int) answer{
		"by header": func(addr string, i int) answer {
			return s.requestFrom(addr, "GET", "/api/v1/jobs", "", "Authorization", fmt.Sprint("Bearer dm_", addr, i))
		},
		"by cookie": func(addr string, i int) answer {
			return s.requestFrom(addr, "GET", "/api/v1/jobs", "", "Cookie", fmt.Sprint("deadman_session=ds_", addr, i))
		},
		"by the form": func(addr string, i int) answer {
			return s.requestFrom(addr, "POST", "/login", fmt.Sprint("token=dm_", addr, i), form...)
		},
		"by the page of the form": func(addr string, i int) answer {
			return s.requestFrom(addr, "GET", "/login", "", "Cookie", fmt.Sprint("deadman_session=ds_", addr, i))
		},
		"by a logout": func(addr string, i int) answer {
			return s.requestFrom(addr, "POST", "/logout", "", "Cookie", fmt.Sprint("deadman_session=ds_", addr, i))
		},
	} {
		addr := map[string]string{"by header": here, "by cookie": "192.0.2.8", "by the form": "192.0.2.9", "by the page of the form": "192.0.2.10", "by a logout": "192.0.2.11"}[name]
		before := db.requests.Load()
		limited := 0
		for i := range 200 {
			a := try(addr, i)
			switch {
			case a.StatusCode == http.StatusTooManyRequests:
				limited++
				if a.Header.Get("Retry-After") == "" || len(a.Cookies()) > 0 && name != "by a logout" {
					t.Errorf("%s: %v", name, a.Header)
				}
			case i >= 25 && name != "by the page of the form":
				t.Errorf("%s: wrong token %d is answered with %d", name, i, a.StatusCode)
			}
		}
		if requests := db.requests.Load() - before; requests > 25 {
			t.Errorf("%s: 200 wrong tokens cost %d queries", name, requests)
		}
		if limited < 170 && name != "by the page of the form" {
			t.Errorf("%s: %d of 200 are limited", name, limited)
		}
	}
	checkProblem(t, s.requestFrom(here, "GET", "/api/v1/jobs", "", "Authorization", "Bearer dm_other"), 429, web.TooManyRequests, here, "wait", "deadman token list")
	if a := s.requestFrom(here, "GET", "/api/v1/jobs", "", good...); a.StatusCode != 200 {
		t.Errorf("a good token of the address is locked out: %d %s", a.StatusCode, a.body)
	}
	if a := s.requestFrom("192.0.2.99", "GET", "/api/v1/jobs", "", "Authorization", "Bearer dm_wrong"); a.StatusCode != 401 {
		t.Errorf("another address: %d", a.StatusCode)
	}
	if lines := strings.Count(log.String(), "token refused"); lines == 0 || lines > 20 || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "from="+here) && !strings.Contains(log.String(), "from=192.0.2.") {
		t.Errorf("the log has %d lines:\n%s", lines, log.String())
	}
	if strings.Contains(log.String(), "dm_") || strings.Contains(log.String(), "ds_") {
		t.Errorf("the log has secrets:\n%s", log.String())
	}
	metrics := s.requestFrom(here, "GET", "/metrics", "", good...).body
	for _, kind := range []string{"token", "session", "login", "limit"} {
		if !strings.Contains(metrics, `deadman_refused_tokens_total{kind="`+kind+`"} `) {
			t.Errorf("the refusals of kind %s are not counted", kind)
		}
	}
}

// TestSameWrongTokenAgain checks that a repeated wrong token costs one query. A browser with an expired session is
// sent to the login each time, and may log in.
func TestSameWrongTokenAgain(t *testing.T) {
	var db *countAfter
	s := newFixture(t, func(o *web.Options, s *fixture) {
		db = &countAfter{Store: s.store}
		o.Open, o.Keeper = nil, access.NewTokens(db, time.Now)
		s.keeper = o.Keeper
	})
	good := s.newToken("good", "", access.Read)
	before := db.requests.Load()
	last := 0
	for range 100 {
		last = s.requestFrom("192.0.2.7", "GET", "/api/v1/jobs", "", "Authorization", "Bearer dm_old").StatusCode
	}
	if requests := db.requests.Load() - before; requests != 1 || last != http.StatusTooManyRequests {
		t.Errorf("100 times the same token: %d queries, and %d at last", requests, last)
	}
	for range 100 {
		a := s.requestFrom("192.0.2.7", "GET", "/jobs", "", "Cookie", "deadman_session=ds_old", "Accept", "text/html")
		if a.StatusCode != http.StatusSeeOther {
			t.Fatalf("a browser whose session is over: %d", a.StatusCode)
		}
	}
	if requests := db.requests.Load() - before; requests != 2 {
		t.Errorf("the same session cost %d queries", requests-1)
	}
	a := s.requestFrom("192.0.2.7", "POST", "/login", "token="+strings.TrimPrefix(good[1], "Bearer "), append(formOf, "Cookie", "deadman_session=ds_old")...)
	if a.StatusCode != http.StatusSeeOther || len(a.Cookies()) != 1 {
		t.Errorf("the login after it: %d %s", a.StatusCode, a.body)
	}
}
