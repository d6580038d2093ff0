package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"deadman/internal/access"
	"deadman/web"
)

// TestLoginRedirects checks that a link to a page opens it after the login, even after failed attempts, and that no link
// leads to another host.
func TestLoginRedirects(t *testing.T) {
	s := newFixture(t, closedNode)
	secret := strings.TrimPrefix(s.newToken("me", "", access.Read)[1], "Bearer ")
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"}
	const nextPage = "/entities/order?key=a%2Fb+%0A%26next%3D%2F&x=1"
	first := requestPath(t, s.Server, "GET", nextPage, "", "Accept", "text/html")
	way := first.Header.Get("Location")
	if first.StatusCode != http.StatusSeeOther || !strings.HasPrefix(way, "/login?next=") {
		t.Fatalf("%d to %q", first.StatusCode, way)
	}
	for _, a := range []answer{
		requestPath(t, s.Server, "GET", way, ""),
		requestPath(t, s.Server, "POST", "/login", url.Values{"token": {"dm_x"}, "next": {nextPage}}.Encode(), form...),
	} {
		if !strings.Contains(a.body, `name="next" value="/entities/order?key=a%2Fb&#43;%0A%26next%3D%2F&amp;x=1"`) {
			t.Errorf("%d, and the form does not carry the page: %s", a.StatusCode, a.body)
		}
	}
	for next, want := range map[string]string{
		nextPage: nextPage, "/alerts/x?by=key": "/alerts/x?by=key", "/": "/", "": "/",
		"//evil.example": "/", "///evil.example": "/", `/\evil.example`: "/", `\\evil.example`: "/", "https://evil.example/": "/", "https:/evil.example": "/",
		"evil.example": "/", "javascript:alert(1)": "/", "/\t/evil.example": "/", "/\n/evil.example": "/", " //evil.example": "/", "/ /evil.example": "/",
		"/%2Fevil.example": "/", "/%5Cevil.example/": "/%5Cevil.example/", "/.//evil.example": "/evil.example", "/x/..//evil.example": "/evil.example",
		"/ü": "/", "/%zz": "/", "/login?next=%2Flogin": "/", "/" + strings.Repeat("x", 3<<10): "/",
	} {
		a := requestPath(t, s.Server, "POST", "/login", url.Values{"token": {secret}, "next": {next}}.Encode(), form...)
		if got := a.Header.Get("Location"); a.StatusCode != http.StatusSeeOther || got != want {
			t.Errorf("next %q leads to %q with %d, want %q", next, got, a.StatusCode, want)
		}
	}
	if a := requestPath(t, newFixture(t).Server, "GET", way, ""); a.Header.Get("Location") != nextPage {
		t.Errorf("an open node leads to %q", a.Header.Get("Location"))
	}
}

// formOf has the headers of a form that a browser sends from the node's own pages.
var formOf = []string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"}

// logIn logs a browser in with the token of a header, and returns the header that the browser sends from then on.
func (s *fixture) logIn(token []string) []string {
	s.t.Helper()
	a := requestPath(s.t, s.Server, "POST", "/login", url.Values{"token": {strings.TrimPrefix(token[1], "Bearer ")}}.Encode(), formOf...)
	if a.StatusCode != http.StatusSeeOther || len(a.Cookies()) != 1 {
		s.t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	return []string{"Cookie", a.Cookies()[0].Name + "=" + a.Cookies()[0].Value}
}

// TestLoginLinkNeedsClick checks that a link only fills in the login form, so that a click is still needed. A link from
// another site does not fill it in.
func TestLoginLinkNeedsClick(t *testing.T) {
	s := newFixture(t, closedNode)
	token := s.newToken("me", "", access.Read)
	secret := strings.TrimPrefix(token[1], "Bearer ")
	way := "/login?" + url.Values{"token": {secret}, "next": {"/rules"}}.Encode()
	filled := `value="` + secret + `"`
	for site, want := range map[string]bool{"": true, "none": true, "same-origin": true, "same-site": false, "cross-site": false} {
		header := []string{"Accept", "text/html"}
		if site != "" {
			header = append(header, "Sec-Fetch-Site", site)
		}
		a := requestPath(t, s.Server, "GET", way, "", header...)
		if a.StatusCode != http.StatusOK || len(a.Cookies()) != 0 || strings.Contains(a.body, filled) != want || !strings.Contains(a.body, `value="/rules"`) {
			t.Errorf("from %q: %d, cookies %v, filled in %v: %s", site, a.StatusCode, a.Cookies(), !want, a.body)
		}
		if a.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("from %q: the referrer contains the token", site)
		}
	}
	if entries, _, err := s.keeper.Audit(t.Context(), access.AuditFilter{Action: "session.*"}); err != nil || len(entries) != 0 {
		t.Errorf("links made sessions: %+v %v", entries, err)
	}

	mine := s.logIn(token)
	foreign := s.newToken("foreign", "", access.Events)
	a := requestPath(t, s.Server, "GET", "/login?token="+strings.TrimPrefix(foreign[1], "Bearer "), "", append(mine, "Sec-Fetch-Site", "cross-site")...)
	if a.StatusCode != http.StatusOK || len(a.Cookies()) != 0 || !strings.Contains(a.body, "You are logged in as <b><bdi>me</bdi></b>") {
		t.Errorf("a link of another site: %d %v %s", a.StatusCode, a.Cookies(), a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/", "", append(mine, htmlHeader...)...); a.StatusCode != http.StatusOK || !strings.Contains(a.body, "<bdi>me</bdi>") {
		t.Errorf("after it, the browser is logged in otherwise: %d", a.StatusCode)
	}
	a = requestPath(t, s.Server, "POST", "/login", "token="+secret, "Content-Type", formOf[1], "Origin", "https://evil.example")
	if a.StatusCode != http.StatusForbidden || len(a.Cookies()) != 0 {
		t.Errorf("a form of another site: %d %v", a.StatusCode, a.Cookies())
	}
}

// TestBrowserHasNoToken checks that a browser gets the secret of a session instead of the token; each login creates
// another session and ends the previous one.
func TestBrowserHasNoToken(t *testing.T) {
	s := newFixture(t, closedNode)
	token := s.newToken("me", "", access.Read)
	secret := strings.TrimPrefix(token[1], "Bearer ")
	first := s.logIn(token)
	if strings.Contains(first[1], secret) {
		t.Fatalf("the cookie has the token: %s", first[1])
	}
	_, session, _ := strings.Cut(first[1], "=")
	for _, header := range [][]string{
		{"Authorization", "Bearer " + session},
		{"Cookie", "deadman_session=" + secret},
		{"Cookie", "deadman_token=" + secret},
		{"Cookie", "__Host-deadman_session=" + session},
		{"Cookie", "deadman_token=" + session},
	} {
		if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", header...); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%v: %d", header, a.StatusCode)
		}
	}
	a := requestPath(t, s.Server, "POST", "/login", "token="+secret, append(first, formOf...)...)
	if a.StatusCode != http.StatusSeeOther || a.Cookies()[0].Value == session {
		t.Fatalf("%d %v", a.StatusCode, a.Cookies())
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", first...); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("the session before the login: %d", a.StatusCode)
	}
	if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", "Cookie", "deadman_session="+a.Cookies()[0].Value); a.StatusCode != http.StatusOK {
		t.Errorf("the session of the login: %d", a.StatusCode)
	}
}

// TestLogOutEndsSession checks that logging out ends the session on the node, and not only in the browser.
func TestLogOutEndsSession(t *testing.T) {
	s := newFixture(t, closedNode)
	token := s.newToken("me", "", access.Read)
	mine, other := s.logIn(token), s.logIn(token)
	if a := requestPath(t, s.Server, "POST", "/logout", "", mine...); a.StatusCode != http.StatusSeeOther || a.Cookies()[0].MaxAge >= 0 {
		t.Fatalf("%d %v", a.StatusCode, a.Cookies())
	}
	for _, c := range []struct {
		header []string
		want   int
	}{{mine, 401}, {other, 200}, {token, 200}} {
		if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", c.header...); a.StatusCode != c.want {
			t.Errorf("%v: %d, want %d", c.header, a.StatusCode, c.want)
		}
	}
	entries, _, err := s.keeper.Audit(t.Context(), access.AuditFilter{Action: "session.*"})
	if err != nil || len(entries) != 3 || entries[0].Action != "session.revoke" || entries[0].Actor.Name != "me" || entries[0].Actor.Addr != "127.0.0.1" {
		t.Errorf("the audit has %+v %v", entries, err)
	}
}

// TestSessionsAreListedAndRevoked checks that sessions are listed and ended by an administrator and the holder of their
// token.
func TestSessionsAreListedAndRevoked(t *testing.T) {
	s := newFixture(t, closedNode)
	admin, ann, bob := s.newToken("root", "", access.Admin), s.newToken("ann", "", access.Read), s.newToken("bob", "acme-*", access.Read)
	anns := s.logIn(ann)
	_, bobs := s.logIn(bob), s.logIn(bob)
	list := func(header []string) (all []web.Session) {
		t.Helper()
		var page web.Page[web.Session]
		a := requestPath(t, s.Server, "GET", "/api/v1/sessions", "", header...)
		failOn(t, json.Unmarshal([]byte(a.body), &page))
		if a.StatusCode != http.StatusOK || strings.Contains(a.body, `"ds_`) {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
		return page.Items
	}
	if all := list(admin); len(all) != 3 || all[0].Token != "bob" || all[2].Token != "ann" || all[0].Addr != "127.0.0.1" || all[0].UserAgent == "" {
		t.Errorf("an administrator sees %+v", all)
	}
	mine := list(anns)
	if len(mine) != 1 || !mine[0].Current || mine[0].EndsAt.Sub(mine[0].LastUsedAt) != access.SessionIdle {
		t.Errorf("ann sees %+v", mine)
	}
	others := list(bobs)
	if len(others) != 2 || !others[0].Current || others[1].Current {
		t.Errorf("bob sees %+v", others)
	}
	checkProblem(t, requestPath(t, s.Server, "DELETE", "/api/v1/sessions/"+others[0].ID, "", anns...), 404, web.NotFound, "session not found")
	checkProblem(t, requestPath(t, s.Server, "DELETE", "/api/v1/sessions/x", "", admin...), 404, web.NotFound, "session")
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/sessions/"+others[0].ID, "", bob...); a.StatusCode != http.StatusNoContent {
		t.Errorf("bob ends a session of bob: %d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/jobs", "", bobs...), 401, web.Unauthorized, "log in again")
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/sessions/"+mine[0].ID, "", admin...); a.StatusCode != http.StatusNoContent {
		t.Errorf("an administrator ends a session: %d %s", a.StatusCode, a.body)
	}
	if a := requestPath(t, s.Server, "GET", "/jobs", "", append(anns, htmlHeader...)...); a.StatusCode != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "/login") {
		t.Errorf("a browser whose session was ended: %d %v", a.StatusCode, a.Header)
	}
	if a := requestPath(t, s.Server, "DELETE", "/api/v1/tokens/bob", "", admin...); a.StatusCode != http.StatusNoContent {
		t.Fatal(a.body)
	}
	if all := list(admin); len(all) != 0 {
		t.Errorf("sessions outlive their token: %+v", all)
	}
}

// TestHTTPSCookie checks that with https no other host and no plain http sets the cookie.
func TestHTTPSCookie(t *testing.T) {
	s := newFixture(t, closedNode, func(o *web.Options, _ *fixture) { o.PublicURL = "https://deadman.example.org" })
	mine := s.logIn(s.newToken("me", "", access.Read))
	name, secret, _ := strings.Cut(mine[1], "=")
	if name != "__Host-deadman_session" {
		t.Errorf("the cookie is %s", name)
	}
	for header, want := range map[string]int{mine[1]: 200, "deadman_session=" + secret: 401} {
		if a := requestPath(t, s.Server, "GET", "/api/v1/jobs", "", "Cookie", header); a.StatusCode != want {
			t.Errorf("%s: %d, want %d", header, a.StatusCode, want)
		}
	}
}

// TestLoginsOfTokenAreBounded checks that a token creates no session for each of any number of requests.
func TestLoginsOfTokenAreBounded(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	s := newFixture(t, closedNode, func(o *web.Options, _ *fixture) { o.Now = func() time.Time { return time.Unix(0, now.Load()) } })
	secret := strings.TrimPrefix(s.newToken("me", "", access.Events)[1], "Bearer ")
	other := strings.TrimPrefix(s.newToken("other", "", access.Read)[1], "Bearer ")
	enter := func(secret string) answer {
		return requestPath(t, s.Server, "POST", "/login", "token="+secret, formOf...)
	}
	entered, refused := 0, answer{}
	for range 100 {
		if a := enter(secret); a.StatusCode == http.StatusSeeOther {
			entered++
		} else {
			refused = a
		}
	}
	if entered != 40 {
		t.Errorf("%d logins at once, want 40", entered)
	}
	if refused.StatusCode != http.StatusTooManyRequests || refused.Header.Get("Retry-After") != "1" || !strings.Contains(refused.body, "Too many logins with this token") || len(refused.Cookies()) > 0 {
		t.Errorf("%d %v %s", refused.StatusCode, refused.Header, refused.body)
	}
	if a := enter(other); a.StatusCode != http.StatusSeeOther {
		t.Errorf("another token: %d", a.StatusCode)
	}
	now.Add(int64(time.Second))
	if a := enter(secret); a.StatusCode != http.StatusSeeOther {
		t.Errorf("a second later: %d", a.StatusCode)
	}
	if all, err := s.keeper.Sessions(t.Context()); err != nil || len(all) != 42 {
		t.Errorf("%d sessions, want 42: %v", len(all), err)
	}
}
