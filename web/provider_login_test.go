package web_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"deadman/internal/access"
	"deadman/internal/logins/logintest"
	"deadman/web"
)

// providerFile returns a login file with a provider.
func providerFile(issuer string) string {
	return "oidc: {issuer: '" + issuer + "', title: Example ID, client_id: " + logintest.Client + ", client_secret_env: X}\n" + groupGrants
}

// cookieBrowser is a browser with its cookies.
type cookieBrowser struct {
	*loginFixture
	cookies map[string]string
}

func (p *loginFixture) newBrowser() *cookieBrowser { return &cookieBrowser{p, make(map[string]string)} }

// request sends a request as the browser does, and stores the cookies of the answer.
func (b *cookieBrowser) request(method, path, body string, header ...string) answer {
	b.t.Helper()
	var all []string
	for name, value := range b.cookies {
		all = append(all, name+"="+value)
	}
	if all != nil {
		header = append(header, "Cookie", strings.Join(all, "; "))
	}
	a := requestPath(b.t, b.Server, method, path, body, append(header, htmlHeader...)...)
	for _, c := range a.Cookies() {
		if b.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
			b.t.Errorf("the cookie %v", c)
		}
	}
	return a
}

// startLogin clicks the button of the login page, and returns the provider's URL.
func (b *cookieBrowser) startLogin(next string) string {
	b.t.Helper()
	a := b.request("POST", "/login/oidc", url.Values{"next": {next}}.Encode(), formOf...)
	_, at, leads := strings.Cut(a.Header.Get("Refresh"), "url=")
	if a.StatusCode != http.StatusOK || !leads || !strings.Contains(a.body, "Go on to Example ID") {
		b.t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	return at
}

// callback returns the issuer's redirect, relative to the node.
func (b *cookieBrowser) callback(i *logintest.Issuer, next string) string {
	b.t.Helper()
	u, err := url.Parse(i.Authorize(b.startLogin(next)))
	failOn(b.t, err)
	if b.URL != "http://"+u.Host {
		b.t.Errorf("the provider leads back to %s", u)
	}
	return u.RequestURI()
}

func (b *cookieBrowser) isLoggedIn() bool {
	b.t.Helper()
	return b.request("GET", "/api/v1/jobs", "").StatusCode == http.StatusOK
}

func (b *cookieBrowser) getWithCookie(at, name, value string) string {
	path, query, _ := strings.Cut(at, "?")
	q, err := url.ParseQuery(query)
	failOn(b.t, err)
	q.Set(name, value)
	return path + "?" + q.Encode()
}

// TestProviderLogsUserIn checks that a click on the login page leads to the provider and back, with a session for the
// person.
func TestProviderLogsUserIn(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	b := p.newBrowser()
	form := b.request("GET", "/login?next=%2Frules", "")
	if !strings.Contains(form.body, `action="/login/oidc"`) || !strings.Contains(form.body, "Log in with <bdi>Example ID</bdi>") || !strings.Contains(form.body, `name="token"`) || len(form.Cookies()) > 0 {
		t.Errorf("the way in: %s", form.body)
	}
	at := b.callback(i, "/rules")
	a := b.request("GET", at, "", "Sec-Fetch-Site", "cross-site")
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/rules" {
		t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if page := b.request("GET", "/rules", ""); page.StatusCode != http.StatusOK || !strings.Contains(page.body, "<bdi>oidc:ann@example.org</bdi>") || !strings.Contains(page.body, "Log out") {
		t.Errorf("%d %s", page.StatusCode, page.body)
	}
	if len(b.cookies) != 1 || strings.Contains(p.log.text(), "level=ERROR") {
		t.Errorf("the browser keeps %v; %s", b.cookies, p.log.text())
	}
	sessions := b.request("GET", "/api/v1/sessions", "")
	if !strings.Contains(sessions.body, `"user":"oidc:ann@example.org"`) || strings.Contains(sessions.body, `"token"`) {
		t.Errorf("sessions: %s", sessions.body)
	}
	if page := b.request("GET", "/sessions", ""); !strings.Contains(page.body, "oidc:ann@example.org") {
		t.Errorf("the page of sessions: %s", page.body)
	}
	header := []string{"Cookie", "deadman_session=" + b.cookies["deadman_session"]}
	got := auditOf(t, p.fixture, "session.create", header)
	if len(got) != 1 || got[0].Actor != "oidc:ann@example.org" || got[0].Detail != "id oidc:"+i.URL+"#1; groups sre" {
		t.Errorf("audited: %+v", got)
	}
	if strings.Contains(p.log.text(), logintest.Secret) || strings.Contains(p.log.text(), "access-token-of") || strings.Contains(p.log.text(), "code=") {
		t.Errorf("the log has a secret: %s", p.log.text())
	}
	// Logging out ends the session on the node.
	b.request("POST", "/logout", "", formOf...)
	if a := requestPath(t, p.Server, "GET", "/api/v1/jobs", "", header...); a.StatusCode != http.StatusUnauthorized || len(b.cookies) != 0 {
		t.Errorf("after the log out: %d, %v", a.StatusCode, b.cookies)
	}
}

// TestLoginIsBoundToBrowser checks that a redirect to another browser, a repeated one, and one without a login in
// progress are refused.
func TestLoginIsBoundToBrowser(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	refused := func(what string, b *cookieBrowser, at string) {
		t.Helper()
		if a := b.request("GET", at, ""); a.StatusCode != http.StatusForbidden || b.cookies["deadman_session"] != "" || !strings.Contains(a.body, "Log in") {
			t.Errorf("%s: %d %v", what, a.StatusCode, b.cookies)
		}
		if b.cookies["deadman_login"] != "" {
			t.Errorf("%s: the login continues", what)
		}
	}
	foreign := p.newBrowser()
	others := foreign.callback(i, "/")
	refused("a login that another browser began", p.newBrowser(), others)
	b := p.newBrowser()
	b.startLogin("/")
	refused("a login of another browser in place of the own", b, others)
	b = p.newBrowser()
	at := b.callback(i, "/")
	refused("a state that is missing", b, b.getWithCookie(at, "state", ""))
	refused("and the right one afterwards", b, at)
	for _, state := range []string{"x", strings.Repeat("A", 26)} {
		b = p.newBrowser()
		refused("the state "+state, b, b.getWithCookie(b.callback(i, "/"), "state", state))
	}
	for _, cookie := range []string{"x", base64.RawURLEncoding.EncodeToString([]byte(`{}`)), base64.RawURLEncoding.EncodeToString([]byte(`{"state":""}`)), base64.RawURLEncoding.EncodeToString([]byte(`[]`))} {
		b = p.newBrowser()
		b.cookies["deadman_login"] = cookie
		refused("the cookie "+cookie, b, "/login/oidc/callback?code=x&state=")
	}
	b = p.newBrowser()
	at = b.callback(i, "/")
	kept := b.cookies["deadman_login"]
	if a := b.request("GET", at, ""); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	again := p.newBrowser()
	refused("an address that was used", again, at)
	again.cookies["deadman_login"] = kept
	refused("with its cookie, too", again, at)
	b = p.newBrowser()
	at = b.startLogin("/")
	first, err := url.Parse(i.Authorize(at))
	failOn(t, err)
	second, err := url.Parse(i.Authorize(at)) // another code, for the same state
	failOn(t, err)
	again.cookies["deadman_login"] = b.cookies["deadman_login"]
	if a := b.request("GET", first.RequestURI(), ""); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	refused("a state that was used, with its cookie and another code", again, second.RequestURI())
	b = p.newBrowser()
	refused("an unknown code", b, b.getWithCookie(b.callback(i, "/"), "code", "x"))
	b = p.newBrowser()
	refused("no code", b, b.getWithCookie(b.callback(i, "/"), "code", ""))
	b = p.newBrowser()
	refused("another issuer", b, b.getWithCookie(b.callback(i, "/"), "iss", "https://evil.example"))
	// The code of another login, in the browser's own one.
	b = p.newBrowser()
	other, err := url.Parse(p.newBrowser().callback(i, "/"))
	failOn(t, err)
	refused("a code of another login", b, b.getWithCookie(b.callback(i, "/"), "code", other.Query().Get("code")))
	i.Claims(map[string]any{"nonce": "x"})
	b = p.newBrowser()
	if a := b.request("GET", b.callback(i, "/"), ""); a.StatusCode != http.StatusServiceUnavailable || b.cookies["deadman_session"] != "" || strings.Contains(a.body, "nonce") {
		t.Errorf("another nonce: %d %s", a.StatusCode, a.body)
	}
	i.Claims(nil)
	if got := p.countRefusals("oidc"); got == "0" {
		t.Error("nothing is counted as refused")
	}
	// Neither a page of another site nor a link begins a login.
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		if a := p.newBrowser().request("POST", "/login/oidc", "next=%2F", append(header, "Content-Type", formOf[1])...); a.StatusCode != http.StatusForbidden || len(a.Cookies()) > 0 {
			t.Errorf("%v begins a login: %d", header, a.StatusCode)
		}
	}
	if a := p.newBrowser().request("GET", "/login/oidc", ""); a.StatusCode != http.StatusMethodNotAllowed || len(a.Cookies()) > 0 {
		t.Errorf("a link begins a login: %d", a.StatusCode)
	}
	b = p.newBrowser()
	at = b.callback(i, "/")
	if a := b.request("HEAD", at, ""); a.StatusCode != http.StatusMethodNotAllowed || i.Requests("/token") == 0 {
		t.Errorf("HEAD: %d", a.StatusCode)
	}
}

// TestProviderLoginRedirectsToNodeOnly checks that a login opens only pages of the node, regardless of the form, the cookie
// or the URL.
func TestProviderLoginRedirectsToNodeOnly(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	for next, want := range map[string]string{"/alerts/x?a=b": "/alerts/x?a=b", "//evil.example": "/", `/\evil.example`: "/", "https://evil.example": "/", "javascript:alert(1)": "/", "/login": "/", "": "/"} {
		b := p.newBrowser()
		if a := b.request("GET", b.callback(i, next), ""); a.Header.Get("Location") != want {
			t.Errorf("%q leads to %q", next, a.Header.Get("Location"))
		}
		b = p.newBrowser()
		at := b.callback(i, "/")
		text, err := base64.RawURLEncoding.DecodeString(b.cookies["deadman_login"])
		failOn(t, err)
		b.cookies["deadman_login"] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(text), `"next":"/"`, `"next":"`+strings.ReplaceAll(next, `\`, `\\`)+`"`, 1)))
		if a := b.request("GET", b.getWithCookie(at, "next", next), ""); a.Header.Get("Location") != want {
			t.Errorf("with %q in the cookie it leads to %q", next, a.Header.Get("Location"))
		}
	}
}

// TestProviderErrorIsEscaped checks that the words of a provider, or of the URL's author, are escaped.
func TestProviderErrorIsEscaped(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	for query, want := range map[string]string{
		"error=access_denied": "did not let you in",
		"error=%3Cscript%3Ealert(1)%3C/script%3E&error_description=%3Cimg%20src=x%3E": "refuses the login: &lt;script&gt;alert(1)&lt;/script&gt; (&lt;img src=x&gt;)",
		"error=server_error&code=x": "refuses the login: server_error.",
	} {
		b := p.newBrowser()
		at, err := url.Parse(b.callback(i, "/rules"))
		failOn(t, err)
		a := b.request("GET", "/login/oidc/callback?state="+at.Query().Get("state")+"&"+query, "")
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, want) || strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "<img") || b.cookies["deadman_session"] != "" || !strings.Contains(a.body, `value="/rules"`) {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
		if a := p.newBrowser().request("GET", "/login/oidc/callback?"+query, ""); a.StatusCode != http.StatusForbidden || strings.Contains(a.body, want) {
			t.Errorf("%s, of no login: %d %s", query, a.StatusCode, a.body)
		}
	}
}

// TestLoginPreventsSessionFixation checks that each login creates a new session and ends the previous one of any user, and that
// the browser's own values are ignored.
func TestLoginPreventsSessionFixation(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	b := p.newBrowser()
	b.cookies["deadman_session"] = "ds_" + strings.Repeat("A", 43)
	if a := b.request("GET", b.callback(i, "/"), ""); a.StatusCode != http.StatusSeeOther || b.cookies["deadman_session"] == "ds_"+strings.Repeat("A", 43) {
		t.Fatalf("%d %v", a.StatusCode, b.cookies)
	}
	first := "deadman_session=" + b.cookies["deadman_session"]
	b.request("GET", b.callback(i, "/"), "")
	if !b.isLoggedIn() {
		t.Error("the second login is none")
	}
	token := p.newBrowser()
	token.request("POST", "/login", url.Values{"token": {strings.TrimPrefix(p.newToken("me", "", access.Read)[1], "Bearer ")}}.Encode(), formOf...)
	of := "deadman_session=" + token.cookies["deadman_session"]
	token.request("GET", token.callback(i, "/"), "")
	for _, cookie := range []string{first, of} {
		if a := requestPath(t, p.Server, "GET", "/api/v1/jobs", "", "Cookie", cookie); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("the session before the login: %d", a.StatusCode)
		}
	}
	if secure := newLoginFixture(t, providerFile(i.URL), func(o *web.Options, _ *fixture) { o.PublicURL = "https://deadman.example.org/" }); true {
		a := secure.newBrowser().request("POST", "/login/oidc", "", formOf...)
		c := a.Cookies()[0]
		if c.Name != "__Host-deadman_login" || !c.Secure || !strings.Contains(a.Header.Get("Refresh"), url.QueryEscape("https://deadman.example.org/login/oidc/callback")) {
			t.Errorf("behind https: %v %v", c, a.Header)
		}
	}
}

// TestGroupsAreCheckedAtLogin checks that the current login file decides a person's permissions, and that a person without
// groups gets no session.
func TestGroupsAreCheckedAtLogin(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	i.Claims(map[string]any{"groups": []string{"visitors", "<b>"}})
	b := p.newBrowser()
	if a := b.request("GET", b.callback(i, "/"), ""); a.StatusCode != http.StatusForbidden || b.cookies["deadman_session"] != "" || !strings.Contains(a.body, "visitors, &lt;b&gt;") || !strings.Contains(a.body, "None of your groups") {
		t.Errorf("%d %v %s", a.StatusCode, b.cookies, a.body)
	}
	i.Claims(map[string]any{"groups": nil})
	i.Info(map[string]any{"sub": "1"})
	if a := b.request("GET", b.callback(i, "/"), ""); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "has no groups") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if all, err := p.keeper.Sessions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("strangers have sessions: %+v %v", all, err)
	}
	i.Claims(map[string]any{"groups": []string{"staff", "sre"}})
	if a := b.request("GET", b.callback(i, "/"), ""); a.StatusCode != http.StatusSeeOther {
		t.Fatal(a.body)
	}
	if a := b.request("GET", "/api/v1/tokens", ""); a.StatusCode != http.StatusOK {
		t.Errorf("an administrator: %d", a.StatusCode)
	}
	begun := openStream(t, p.URL+"/api/v1/alerts", "Cookie", "deadman_session="+b.cookies["deadman_session"])
	p.writeLoginFile(t, strings.Replace(providerFile(i.URL), "sre", "other", 1))
	if a := b.request("GET", "/api/v1/tokens", ""); a.StatusCode != http.StatusForbidden || !b.isLoggedIn() {
		t.Errorf("without the group of administrators: %d", a.StatusCode)
	}
	waitForEnd(t, "a stream of an administrator", begun)
	p.writeLoginFile(t, strings.ReplaceAll(strings.Replace(providerFile(i.URL), "sre", "other", 1), "staff", "another"))
	if a := b.request("GET", "/jobs", ""); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "staff, sre") {
		t.Errorf("in no group: %d %s", a.StatusCode, a.body)
	}
	p.writeLoginFile(t, providerFile("https://id.example.org"))
	if b.isLoggedIn() {
		t.Error("a person of another provider is in")
	}
	p.writeLoginFile(t, headers)
	if b.isLoggedIn() {
		t.Error("a person of a provider that is no more in the file is in")
	}
	p.writeLoginFile(t, providerFile(i.URL))
	if !b.isLoggedIn() {
		t.Error("the session does not go on with the file")
	}
	// A person without permissions can still log out.
	p.writeLoginFile(t, "oidc: {issuer: '"+i.URL+"', client_id: x}\ngroups: [{group: another, scopes: [read]}]\n")
	b.request("POST", "/logout", "", formOf...)
	if all, err := p.keeper.Sessions(t.Context()); err != nil || len(all) != 0 || len(b.cookies) != 0 {
		t.Errorf("after the log out: %+v %v %v", all, b.cookies, err)
	}
}

// TestSessionsOfPeopleAreRevoked checks that administrators and the person end a person's sessions, and that persons do
// not see each other's.
func TestSessionsOfPeopleAreRevoked(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newLoginFixture(t, providerFile(i.URL))
	admin := p.newToken("root", "", access.Admin)
	var tabs []*cookieBrowser
	for _, subject := range []string{"1", "1", "2"} { // the third has the name of the first two
		i.Claims(map[string]any{"sub": subject, "groups": []string{"staff"}})
		b := p.newBrowser()
		b.request("GET", b.callback(i, "/"), "")
		tabs = append(tabs, b)
	}
	id := regexp.MustCompile(`"id":"([^"]+)"`)
	for n, want := range map[int]int{0: 2, 2: 1} {
		if got := id.FindAllString(tabs[n].request("GET", "/api/v1/sessions", "").body, -1); len(got) != want {
			t.Errorf("person %d sees %v", n, got)
		}
	}
	others := id.FindStringSubmatch(tabs[2].request("GET", "/api/v1/sessions", "").body)[1]
	if a := tabs[0].request("DELETE", "/api/v1/sessions/"+others, ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("a person ends the session of another one: %d", a.StatusCode)
	}
	if a := requestPath(t, p.Server, "DELETE", "/api/v1/sessions/"+others, "", admin...); a.StatusCode != http.StatusNoContent || tabs[2].isLoggedIn() || !tabs[0].isLoggedIn() {
		t.Errorf("an administrator: %d %s", a.StatusCode, a.body)
	}
}

// TestWithoutProvider checks that without a provider in the file, its routes and button do not exist.
func TestWithoutProvider(t *testing.T) {
	for _, p := range []*loginFixture{newLoginFixture(t, headers), {fixture: newFixture(t, closedNode)}} {
		if a := p.newBrowser().request("GET", "/login", ""); strings.Contains(a.body, "oidc") || !strings.Contains(a.body, "autofocus") {
			t.Errorf("%s", a.body)
		}
		for _, r := range []string{"POST /login/oidc", "GET /login/oidc/callback?code=x&state=y"} {
			method, path, _ := strings.Cut(r, " ")
			if a := p.newBrowser().request(method, path, "", formOf...); a.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %d", r, a.StatusCode)
			}
		}
	}
}
