package web_test

import (
	"net/http"
	"strings"
	"testing"

	"deadman/internal/access"
)

// TestRefusalsForPeopleAndPrograms checks that users get a page for missing things and refused actions, and programs a
// problem.
func TestRefusalsForPeopleAndPrograms(t *testing.T) {
	s := newFixture(t)
	for _, c := range []struct {
		method, path string
		status       int
		page         string // empty if the path is only for programs
	}{
		{"GET", "/nope", 404, "Nothing exists at /nope<"},
		{"GET", "/entities/order/zz", 404, `href="/jobs">All pending checks`},
		{"DELETE", "/jobs", 405, "use GET, HEAD, POST"},
		{"GET", "/%3Cscript%3E", 404, "at /&lt;script&gt;<"},
		{"GET", "/PING/secret", 404, "Nothing exists at /PING/<"},
		{"GET", "/api/nope", 404, ""},
		{"GET", "/api/v1/nope", 404, ""},
		{"GET", "/hooks/nope", 405, ""},
		{"GET", "/ping/nope", 404, ""},
		{"PUT", "/healthz", 405, ""},
	} {
		response := requestPath(t, s.Server, c.method, c.path, "", "Accept", "application/json")
		if response.StatusCode != c.status || response.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s, of a program: %d %s", c.method, c.path, response.StatusCode, response.body)
		}
		seen := requestPath(t, s.Server, c.method, c.path, "", "Accept", "text/html,*/*;q=0.8")
		kind := "text/html; charset=utf-8"
		if c.page == "" {
			kind = "application/problem+json"
		}
		if seen.StatusCode != c.status || seen.Header.Get("Content-Type") != kind || !strings.Contains(seen.body, c.page) || strings.Contains(seen.body, "secret") {
			t.Errorf("%s %s, of a browser: %d %s %s", c.method, c.path, seen.StatusCode, seen.Header.Get("Content-Type"), seen.body)
		}
		if seen.Header.Get("Allow") != response.Header.Get("Allow") {
			t.Errorf("%s %s: Allow is %q and %q", c.method, c.path, seen.Header.Get("Allow"), response.Header.Get("Allow"))
		}
	}
}

// TestRefusalOfTokenIsPage checks that a refused visitor gets a page with a link to the login.
func TestRefusalOfTokenIsPage(t *testing.T) {
	s := newFixture(t, closedNode)
	a := requestPath(t, s.Server, "GET", "/jobs", "", append(s.newToken("shop", "", access.Events), "Accept", "text/html")...)
	if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "does not have the scope read") || !strings.Contains(a.body, `href="/login"`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	// An anonymous visitor gets only a link to the login.
	a = requestPath(t, s.Server, "POST", "/jobs", "", "Accept", "text/html")
	if a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.body, `href="/login"`) || strings.Contains(a.body, "<nav") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
