package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
)

// htmlHeader is the Accept header of a browser.
var htmlHeader = []string{"Accept", "text/html,*/*;q=0.8"}

// TestLogOut checks that pages show the logged-in user and a logout button, and that the browser has no session after
// it.
func TestLogOut(t *testing.T) {
	s := newFixture(t, closedNode)
	cookie := s.logIn(s.newToken("anna", "", access.Read))
	page := requestPath(t, s.Server, "GET", "/jobs", "", append(cookie, htmlHeader...)...)
	if !strings.Contains(page.body, `action="/logout">Logged in as <b><bdi>anna</bdi></b> <button`) {
		t.Errorf("the page does not name its viewer: %s", page.body)
	}
	if a := requestPath(t, s.Server, "GET", "/logout", "", append(cookie, htmlHeader...)...); a.StatusCode != http.StatusMethodNotAllowed || len(a.Cookies()) != 0 {
		t.Errorf("a link logs out: %d", a.StatusCode)
	}
	if a := requestPath(t, s.Server, "POST", "/logout", "", append(cookie, "Sec-Fetch-Site", "cross-site")...); a.StatusCode != http.StatusForbidden || len(a.Cookies()) != 0 {
		t.Errorf("a page of another site logs out: %d", a.StatusCode)
	}
	if a := requestPath(t, s.Server, "GET", "/jobs", "", append(cookie, htmlHeader...)...); a.StatusCode != http.StatusOK {
		t.Errorf("one of them logged out: %d", a.StatusCode)
	}
	out := requestPath(t, s.Server, "POST", "/logout", "", append(cookie, htmlHeader...)...)
	if out.StatusCode != http.StatusSeeOther || out.Header.Get("Location") != "/login" || len(out.Cookies()) != 1 {
		t.Fatalf("%d %v", out.StatusCode, out.Header)
	}
	if c := out.Cookies()[0]; c.Name != "deadman_session" || c.Value != "" || c.MaxAge >= 0 || c.Path != "/" {
		t.Errorf("the browser keeps %v", c)
	}
	if a := requestPath(t, newFixture(t).Server, "GET", "/jobs", "", htmlHeader...); a.StatusCode != http.StatusOK || strings.Contains(a.body, "logout") {
		t.Errorf("a node that requires no token has them log out: %d", a.StatusCode)
	}
}

// TestPagesLinkToPermittedPages checks that no page links to one that its visitor may not read.
func TestPagesLinkToPermittedPages(t *testing.T) {
	s := newFixture(t, closedNode)
	s.createJob("1", time.Hour, `{}`)
	s.alert("1", "it waits", time.Hour)
	s.writeDeadLetter(1, "orders.created", `{}`)
	link := regexp.MustCompile(`href="(/[^"#]*)`)
	for name, header := range map[string][]string{
		"reader": s.newToken("reader", "", access.Read),
		"some":   s.newToken("some", "order-*", access.OnCall, access.Events),
		"other":  s.newToken("other", "paid*", access.Read),
		"all":    s.newToken("all", "", access.Admin),
	} {
		seen := map[string]bool{"/static": true}
		for todo := []string{"/"}; len(todo) > 0; todo = todo[1:] {
			page := requestPath(t, s.Server, "GET", todo[0], "", append(header, htmlHeader...)...)
			if page.StatusCode != http.StatusOK {
				t.Errorf("%s is led to %s: %d", name, todo[0], page.StatusCode)
			}
			for _, found := range link.FindAllStringSubmatch(page.body, -1) {
				at, _, _ := strings.Cut(found[1], "?")
				if !seen[at] && !strings.HasPrefix(at, "/static/") {
					seen[at] = true
					todo = append(todo, strings.ReplaceAll(found[1], "&amp;", "&"))
				}
			}
		}
		if letters := name == "reader" || name == "all"; !seen["/jobs"] || seen["/dead-letters"] != letters || seen["/mutes"] != letters || seen["/metrics"] != letters {
			t.Errorf("%s is led to %v", name, seen)
		}
	}
}

// TestPageOfTokenWithoutPages checks that a token without pages gets a page with its name and a logout button.
func TestPageOfTokenWithoutPages(t *testing.T) {
	s := newFixture(t, closedNode)
	page := requestPath(t, s.Server, "GET", "/", "", append(s.newToken("shop", "", access.Events), htmlHeader...)...)
	if page.StatusCode != http.StatusForbidden || !strings.Contains(page.body, "Logged in as <b><bdi>shop</bdi>") || strings.Contains(page.body, "<nav") || strings.Contains(page.body, "/metrics") {
		t.Errorf("%d %s", page.StatusCode, page.body)
	}
}

// TestPublishPageReportsMissingFields checks that a visitor who cannot send an event sees the missing permission, and no
// button.
func TestPublishPageReportsMissingFields(t *testing.T) {
	s := newFixture(t, closedNode)
	for _, c := range []struct {
		prefix   string
		scopes   []access.Scope
		wantText string
	}{
		{"", []access.Scope{access.Read}, "does not have the scope <code>events</code>"},
		{"", []access.Scope{access.OnCall}, "does not have the scope <code>events</code>"},
		{"order-*", []access.Scope{access.Read, access.Events}, "may publish on no subject"},
		{"", []access.Scope{access.Read, access.Events}, ">Send event<"},
		{"", []access.Scope{access.Admin}, ">Send event<"},
	} {
		header := s.newToken(strings.ReplaceAll(c.prefix+string(c.scopes[0]), "*", "")+string(c.scopes[len(c.scopes)-1]), c.prefix, c.scopes...)
		page := requestPath(t, s.Server, "GET", "/rules/order-unshipped/send", "", append(header, htmlHeader...)...)
		may := c.wantText == ">Send event<"
		if page.StatusCode != http.StatusOK || !strings.Contains(page.body, c.wantText) || strings.Contains(page.body, ">Send event<") != may {
			t.Errorf("%v of %q: %d %s", c.scopes, c.prefix, page.StatusCode, page.body)
		}
	}
}

// TestSearchWithPrefix checks that a search does not find hidden things, without an error.
func TestSearchWithPrefix(t *testing.T) {
	s := newFixture(t, closedNode)
	s.createJob("1", time.Hour, `{}`)
	some, other := s.newToken("some", "order-*", access.Read), s.newToken("other", "paid*", access.Read)
	for _, query := range []string{"a/b", "order-unshipped/1", "order+1", "1", "order-unshipped"} {
		if a := requestPath(t, s.Server, "GET", "/find?q="+query, "", append(other, htmlHeader...)...); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "No rule, alert or key matches") {
			t.Errorf("%s, requested by another user: %d %s", query, a.StatusCode, a.body)
		}
	}
	if a := requestPath(t, s.Server, "GET", "/find?q=order-unshipped/1", "", append(some, htmlHeader...)...); a.Header.Get("Location") != "/entities/order?key=1" {
		t.Errorf("requested with the scope: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/find?q=a/b", "", append(some, htmlHeader...)...); a.StatusCode != http.StatusOK {
		t.Errorf("a/b: %d", a.StatusCode)
	}
}

// TestCrossSiteForm checks that a form of another site is refused: on a page, if a browser sent it.
func TestCrossSiteForm(t *testing.T) {
	s := newFixture(t)
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"}
	seen := requestPath(t, s.Server, "POST", "/jobs", "do=cancel", append(form, htmlHeader...)...)
	if seen.StatusCode != http.StatusForbidden || seen.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(seen.body, "came from a page of another site") || !strings.Contains(seen.body, `href="/"`) {
		t.Errorf("%d %s", seen.StatusCode, seen.body)
	}
	if response := requestPath(t, s.Server, "POST", "/jobs", "do=cancel", form...); response.StatusCode != http.StatusForbidden || response.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s", response.StatusCode, response.body)
	}
}
