package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
)

// html is the Accept header of a browser.
var html = []string{"Accept", "text/html,*/*;q=0.8"}

// TestLogOut checks that pages show the logged-in user and a logout button, and that the browser has no session after
// it.
func TestLogOut(t *testing.T) {
	s := newStand(t, closed)
	cookie := s.login(s.token("anna", "", access.Read))
	page := do(t, s.Server, "GET", "/jobs", "", append(cookie, html...)...)
	if !strings.Contains(page.body, `action="/logout">Logged in as <b><bdi>anna</bdi></b> <button`) {
		t.Errorf("the page does not say who looks at it: %s", page.body)
	}
	if a := do(t, s.Server, "GET", "/logout", "", append(cookie, html...)...); a.StatusCode != http.StatusMethodNotAllowed || len(a.Cookies()) != 0 {
		t.Errorf("a link logs out: %d", a.StatusCode)
	}
	if a := do(t, s.Server, "POST", "/logout", "", append(cookie, "Sec-Fetch-Site", "cross-site")...); a.StatusCode != http.StatusForbidden || len(a.Cookies()) != 0 {
		t.Errorf("a page of another site logs out: %d", a.StatusCode)
	}
	if a := do(t, s.Server, "GET", "/jobs", "", append(cookie, html...)...); a.StatusCode != http.StatusOK {
		t.Errorf("one of them logged out: %d", a.StatusCode)
	}
	out := do(t, s.Server, "POST", "/logout", "", append(cookie, html...)...)
	if out.StatusCode != http.StatusSeeOther || out.Header.Get("Location") != "/login" || len(out.Cookies()) != 1 {
		t.Fatalf("%d %v", out.StatusCode, out.Header)
	}
	if c := out.Cookies()[0]; c.Name != "deadman_session" || c.Value != "" || c.MaxAge >= 0 || c.Path != "/" {
		t.Errorf("the browser keeps %v", c)
	}
	if a := do(t, newStand(t).Server, "GET", "/jobs", "", html...); a.StatusCode != http.StatusOK || strings.Contains(a.body, "logout") {
		t.Errorf("a node that requires no token has them log out: %d", a.StatusCode)
	}
}

// TestPagesLeadWhereOneMay checks that no page links to one that its visitor may not read.
func TestPagesLeadWhereOneMay(t *testing.T) {
	s := newStand(t, closed)
	s.place("1", time.Hour, `{}`)
	s.alert("1", "it waits", time.Hour)
	s.letter(1, "orders.created", `{}`)
	link := regexp.MustCompile(`href="(/[^"#]*)`)
	for name, header := range map[string][]string{
		"looks": s.token("looks", "", access.Read),
		"some":  s.token("some", "order-*", access.OnCall, access.Events),
		"other": s.token("other", "paid*", access.Read),
		"all":   s.token("all", "", access.Admin),
	} {
		seen := map[string]bool{"/static": true}
		for todo := []string{"/"}; len(todo) > 0; todo = todo[1:] {
			page := do(t, s.Server, "GET", todo[0], "", append(header, html...)...)
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
		if letters := name == "looks" || name == "all"; !seen["/jobs"] || seen["/dead-letters"] != letters || seen["/mutes"] != letters || seen["/metrics"] != letters {
			t.Errorf("%s is led to %v", name, seen)
		}
	}
}

// TestPageOfATokenThatSeesNone checks that a token without pages gets a page with its name and a logout button.
func TestPageOfATokenThatSeesNone(t *testing.T) {
	s := newStand(t, closed)
	page := do(t, s.Server, "GET", "/", "", append(s.token("shop", "", access.Events), html...)...)
	if page.StatusCode != http.StatusForbidden || !strings.Contains(page.body, "Logged in as <b><bdi>shop</bdi>") || strings.Contains(page.body, "<nav") || strings.Contains(page.body, "/metrics") {
		t.Errorf("%d %s", page.StatusCode, page.body)
	}
}

// TestPublishPageReportsMissingFields checks that a visitor who cannot send an event sees the missing permission, and no
// button.
func TestPublishPageReportsMissingFields(t *testing.T) {
	s := newStand(t, closed)
	for _, c := range []struct {
		prefix string
		scopes []access.Scope
		says   string
	}{
		{"", []access.Scope{access.Read}, "does not have the scope <code>events</code>"},
		{"", []access.Scope{access.OnCall}, "does not have the scope <code>events</code>"},
		{"order-*", []access.Scope{access.Read, access.Events}, "may publish on no subject"},
		{"", []access.Scope{access.Read, access.Events}, ">Send event<"},
		{"", []access.Scope{access.Admin}, ">Send event<"},
	} {
		header := s.token(strings.ReplaceAll(c.prefix+string(c.scopes[0]), "*", "")+string(c.scopes[len(c.scopes)-1]), c.prefix, c.scopes...)
		page := do(t, s.Server, "GET", "/rules/order-unshipped/send", "", append(header, html...)...)
		may := c.says == ">Send event<"
		if page.StatusCode != http.StatusOK || !strings.Contains(page.body, c.says) || strings.Contains(page.body, ">Send event<") != may {
			t.Errorf("%v of %q: %d %s", c.scopes, c.prefix, page.StatusCode, page.body)
		}
	}
}

// TestFindWithAPrefix checks that a search does not find hidden things, without an error.
func TestFindWithAPrefix(t *testing.T) {
	s := newStand(t, closed)
	s.place("1", time.Hour, `{}`)
	some, other := s.token("some", "order-*", access.Read), s.token("other", "paid*", access.Read)
	for _, asked := range []string{"a/b", "order-unshipped/1", "order+1", "1", "order-unshipped"} {
		if a := do(t, s.Server, "GET", "/find?q="+asked, "", append(other, html...)...); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "No rule, alert or key matches") {
			t.Errorf("%s, requested by another user: %d %s", asked, a.StatusCode, a.body)
		}
	}
	if a := do(t, s.Server, "GET", "/find?q=order-unshipped/1", "", append(some, html...)...); a.Header.Get("Location") != "/entities/order?key=1" {
		t.Errorf("asked by who may: %d %s", a.StatusCode, a.body)
	}
	if a := do(t, s.Server, "GET", "/find?q=a/b", "", append(some, html...)...); a.StatusCode != http.StatusOK {
		t.Errorf("a/b: %d", a.StatusCode)
	}
}

// TestFormOfAnotherSite checks that a form of another site is refused: on a page, if a browser sent it.
func TestFormOfAnotherSite(t *testing.T) {
	s := newStand(t)
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "https://elsewhere.example", "Sec-Fetch-Site", "cross-site"}
	seen := do(t, s.Server, "POST", "/jobs", "do=cancel", append(form, html...)...)
	if seen.StatusCode != http.StatusForbidden || seen.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(seen.body, "came from a page of another site") || !strings.Contains(seen.body, `href="/"`) {
		t.Errorf("%d %s", seen.StatusCode, seen.body)
	}
	if asked := do(t, s.Server, "POST", "/jobs", "do=cancel", form...); asked.StatusCode != http.StatusForbidden || asked.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s", asked.StatusCode, asked.body)
	}
}
