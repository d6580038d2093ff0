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

// providers returns a login file with a provider.
func providers(issuer string) string {
	return "oidc: {issuer: '" + issuer + "', title: Example ID, client_id: " + logintest.Client + ", client_secret_env: X}\n" + grants
}

// tab is a browser with its cookies.
type tab struct {
	*people
	cookies map[string]string
}

func (p *people) tab() *tab { return &tab{p, make(map[string]string)} }

// ask sends a request as the browser does, and stores the cookies of the answer.
func (b *tab) ask(method, path, body string, header ...string) answer {
	b.t.Helper()
	var all []string
	for name, value := range b.cookies {
		all = append(all, name+"="+value)
	}
	if all != nil {
		header = append(header, "Cookie", strings.Join(all, "; "))
	}
	a := do(b.t, b.Server, method, path, body, append(header, html...)...)
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

// begin clicks the button of the login page, and returns the provider's URL.
func (b *tab) begin(next string) string {
	b.t.Helper()
	a := b.ask("POST", "/login/oidc", url.Values{"next": {next}}.Encode(), formOf...)
	_, at, leads := strings.Cut(a.Header.Get("Refresh"), "url=")
	if a.StatusCode != http.StatusOK || !leads || !strings.Contains(a.body, "Go on to Example ID") {
		b.t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	return at
}

// back returns the issuer's redirect, relative to the node.
func (b *tab) back(i *logintest.Issuer, next string) string {
	b.t.Helper()
	u, err := url.Parse(i.Authorize(b.begin(next)))
	fatal(b.t, err)
	if b.URL != "http://"+u.Host {
		b.t.Errorf("the provider leads back to %s", u)
	}
	return u.RequestURI()
}

func (b *tab) isIn() bool {
	b.t.Helper()
	return b.ask("GET", "/api/v1/jobs", "").StatusCode == http.StatusOK
}

func (b *tab) with(at, name, value string) string {
	path, query, _ := strings.Cut(at, "?")
	q, err := url.ParseQuery(query)
	fatal(b.t, err)
	q.Set(name, value)
	return path + "?" + q.Encode()
}

// TestAProviderLogsPeopleIn checks that a click on the login page leads to the provider and back, with a session for the
// person.
func TestAProviderLogsPeopleIn(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newPeople(t, providers(i.URL))
	b := p.tab()
	form := b.ask("GET", "/login?next=%2Frules", "")
	if !strings.Contains(form.body, `action="/login/oidc"`) || !strings.Contains(form.body, "Log in with <bdi>Example ID</bdi>") || !strings.Contains(form.body, `name="token"`) || len(form.Cookies()) > 0 {
		t.Errorf("the way in: %s", form.body)
	}
	at := b.back(i, "/rules")
	a := b.ask("GET", at, "", "Sec-Fetch-Site", "cross-site")
	if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/rules" {
		t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if page := b.ask("GET", "/rules", ""); page.StatusCode != http.StatusOK || !strings.Contains(page.body, "<bdi>oidc:ann@example.org</bdi>") || !strings.Contains(page.body, "Log out") {
		t.Errorf("%d %s", page.StatusCode, page.body)
	}
	if len(b.cookies) != 1 || strings.Contains(p.log.text(), "level=ERROR") {
		t.Errorf("the browser keeps %v; %s", b.cookies, p.log.text())
	}
	sessions := b.ask("GET", "/api/v1/sessions", "")
	if !strings.Contains(sessions.body, `"user":"oidc:ann@example.org"`) || strings.Contains(sessions.body, `"token"`) {
		t.Errorf("sessions: %s", sessions.body)
	}
	if page := b.ask("GET", "/sessions", ""); !strings.Contains(page.body, "oidc:ann@example.org") {
		t.Errorf("the page of sessions: %s", page.body)
	}
	header := []string{"Cookie", "deadman_session=" + b.cookies["deadman_session"]}
	got := audited(t, p.stand, "session.create", header)
	if len(got) != 1 || got[0].Actor != "oidc:ann@example.org" || got[0].Detail != "id oidc:"+i.URL+"#1; groups sre" {
		t.Errorf("audited: %+v", got)
	}
	if strings.Contains(p.log.text(), logintest.Secret) || strings.Contains(p.log.text(), "access-token-of") || strings.Contains(p.log.text(), "code=") {
		t.Errorf("the log has a secret: %s", p.log.text())
	}
	// Logging out ends the session on the node.
	b.ask("POST", "/logout", "", formOf...)
	if a := do(t, p.Server, "GET", "/api/v1/jobs", "", header...); a.StatusCode != http.StatusUnauthorized || len(b.cookies) != 0 {
		t.Errorf("after the log out: %d, %v", a.StatusCode, b.cookies)
	}
}

// TestALoginIsOfItsBrowser checks that a redirect to another browser, a repeated one, and one without a login in
// progress are refused.
func TestALoginIsOfItsBrowser(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newPeople(t, providers(i.URL))
	refused := func(what string, b *tab, at string) {
		t.Helper()
		if a := b.ask("GET", at, ""); a.StatusCode != http.StatusForbidden || b.cookies["deadman_session"] != "" || !strings.Contains(a.body, "Log in") {
			t.Errorf("%s: %d %v", what, a.StatusCode, b.cookies)
		}
		if b.cookies["deadman_login"] != "" {
			t.Errorf("%s: the login goes on", what)
		}
	}
	foreign := p.tab()
	theirs := foreign.back(i, "/")
	refused("a login that another browser began", p.tab(), theirs)
	b := p.tab()
	b.begin("/")
	refused("a login of another browser in place of the own", b, theirs)
	b = p.tab()
	at := b.back(i, "/")
	refused("a state that is missing", b, b.with(at, "state", ""))
	refused("and the right one afterwards", b, at)
	for _, state := range []string{"x", strings.Repeat("A", 26)} {
		b = p.tab()
		refused("the state "+state, b, b.with(b.back(i, "/"), "state", state))
	}
	for _, cookie := range []string{"x", base64.RawURLEncoding.EncodeToString([]byte(`{}`)), base64.RawURLEncoding.EncodeToString([]byte(`{"state":""}`)), base64.RawURLEncoding.EncodeToString([]byte(`[]`))} {
		b = p.tab()
		b.cookies["deadman_login"] = cookie
		refused("the cookie "+cookie, b, "/login/oidc/callback?code=x&state=")
	}
	b = p.tab()
	at = b.back(i, "/")
	kept := b.cookies["deadman_login"]
	if a := b.ask("GET", at, ""); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	again := p.tab()
	refused("an address that was used", again, at)
	again.cookies["deadman_login"] = kept
	refused("with its cookie, too", again, at)
	b = p.tab()
	at = b.begin("/")
	first, err := url.Parse(i.Authorize(at))
	fatal(t, err)
	second, err := url.Parse(i.Authorize(at)) // another code, for the same state
	fatal(t, err)
	again.cookies["deadman_login"] = b.cookies["deadman_login"]
	if a := b.ask("GET", first.RequestURI(), ""); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	refused("a state that was used, with its cookie and another code", again, second.RequestURI())
	b = p.tab()
	refused("an unknown code", b, b.with(b.back(i, "/"), "code", "x"))
	b = p.tab()
	refused("no code", b, b.with(b.back(i, "/"), "code", ""))
	b = p.tab()
	refused("another issuer", b, b.with(b.back(i, "/"), "iss", "https://evil.example"))
	// The code of another login, in the browser's own one.
	b = p.tab()
	other, err := url.Parse(p.tab().back(i, "/"))
	fatal(t, err)
	refused("a code of another login", b, b.with(b.back(i, "/"), "code", other.Query().Get("code")))
	i.Claims(map[string]any{"nonce": "x"})
	b = p.tab()
	if a := b.ask("GET", b.back(i, "/"), ""); a.StatusCode != http.StatusServiceUnavailable || b.cookies["deadman_session"] != "" || strings.Contains(a.body, "nonce") {
		t.Errorf("another nonce: %d %s", a.StatusCode, a.body)
	}
	i.Claims(nil)
	if got := p.refusals("oidc"); got == "0" {
		t.Error("nothing is counted as refused")
	}
	// Neither a page of another site nor a link begins a login.
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		if a := p.tab().ask("POST", "/login/oidc", "next=%2F", append(header, "Content-Type", formOf[1])...); a.StatusCode != http.StatusForbidden || len(a.Cookies()) > 0 {
			t.Errorf("%v begins a login: %d", header, a.StatusCode)
		}
	}
	if a := p.tab().ask("GET", "/login/oidc", ""); a.StatusCode != http.StatusMethodNotAllowed || len(a.Cookies()) > 0 {
		t.Errorf("a link begins a login: %d", a.StatusCode)
	}
	b = p.tab()
	at = b.back(i, "/")
	if a := b.ask("HEAD", at, ""); a.StatusCode != http.StatusMethodNotAllowed || i.Requests("/token") == 0 {
		t.Errorf("HEAD: %d", a.StatusCode)
	}
}

// TestAProviderLeadsToTheNodeAlone checks that a login opens only pages of the node, regardless of the form, the cookie
// or the URL.
func TestAProviderLeadsToTheNodeAlone(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newPeople(t, providers(i.URL))
	for next, want := range map[string]string{"/alerts/x?a=b": "/alerts/x?a=b", "//evil.example": "/", `/\evil.example`: "/", "https://evil.example": "/", "javascript:alert(1)": "/", "/login": "/", "": "/"} {
		b := p.tab()
		if a := b.ask("GET", b.back(i, next), ""); a.Header.Get("Location") != want {
			t.Errorf("%q leads to %q", next, a.Header.Get("Location"))
		}
		b = p.tab()
		at := b.back(i, "/")
		text, err := base64.RawURLEncoding.DecodeString(b.cookies["deadman_login"])
		fatal(t, err)
		b.cookies["deadman_login"] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(text), `"next":"/"`, `"next":"`+strings.ReplaceAll(next, `\`, `\\`)+`"`, 1)))
		if a := b.ask("GET", b.with(at, "next", next), ""); a.Header.Get("Location") != want {
			t.Errorf("with %q in the cookie it leads to %q", next, a.Header.Get("Location"))
		}
	}
}

// TestAProviderRefuses checks that the words of a provider, or of the URL's author, are escaped.
func TestAProviderRefuses(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newPeople(t, providers(i.URL))
	for query, want := range map[string]string{
		"error=access_denied": "did not let you in",
		"error=%3Cscript%3Ealert(1)%3C/script%3E&error_description=%3Cimg%20src=x%3E": "refuses the login: &lt;script&gt;alert(1)&lt;/script&gt; (&lt;img src=x&gt;)",
		"error=server_error&code=x": "refuses the login: server_error.",
	} {
		b := p.tab()
		at, err := url.Parse(b.back(i, "/rules"))
		fatal(t, err)
		a := b.ask("GET", "/login/oidc/callback?state="+at.Query().Get("state")+"&"+query, "")
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, want) || strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "<img") || b.cookies["deadman_session"] != "" || !strings.Contains(a.body, `value="/rules"`) {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
		if a := p.tab().ask("GET", "/login/oidc/callback?"+query, ""); a.StatusCode != http.StatusForbidden || strings.Contains(a.body, want) {
			t.Errorf("%s, of no login: %d %s", query, a.StatusCode, a.body)
		}
	}
}

// TestALoginFixesNoSession checks that each login creates a new session and ends the previous one of any user, and that
// the browser's own values are ignored.
func TestALoginFixesNoSession(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newPeople(t, providers(i.URL))
	b := p.tab()
	b.cookies["deadman_session"] = "ds_" + strings.Repeat("A", 43)
	if a := b.ask("GET", b.back(i, "/"), ""); a.StatusCode != http.StatusSeeOther || b.cookies["deadman_session"] == "ds_"+strings.Repeat("A", 43) {
		t.Fatalf("%d %v", a.StatusCode, b.cookies)
	}
	first := "deadman_session=" + b.cookies["deadman_session"]
	b.ask("GET", b.back(i, "/"), "")
	if !b.isIn() {
		t.Error("the second login is none")
	}
	token := p.tab()
	token.ask("POST", "/login", url.Values{"token": {strings.TrimPrefix(p.token("me", "", access.Read)[1], "Bearer ")}}.Encode(), formOf...)
	of := "deadman_session=" + token.cookies["deadman_session"]
	token.ask("GET", token.back(i, "/"), "")
	for _, cookie := range []string{first, of} {
		if a := do(t, p.Server, "GET", "/api/v1/jobs", "", "Cookie", cookie); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("the session before the login: %d", a.StatusCode)
		}
	}
	if secure := newPeople(t, providers(i.URL), func(o *web.Options, _ *stand) { o.PublicURL = "https://deadman.example.org/" }); true {
		a := secure.tab().ask("POST", "/login/oidc", "", formOf...)
		c := a.Cookies()[0]
		if c.Name != "__Host-deadman_login" || !c.Secure || !strings.Contains(a.Header.Get("Refresh"), url.QueryEscape("https://deadman.example.org/login/oidc/callback")) {
			t.Errorf("behind https: %v %v", c, a.Header)
		}
	}
}

// TestGroupsDecideNow checks that the current login file decides a person's permissions, and that a person without
// groups gets no session.
func TestGroupsDecideNow(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newPeople(t, providers(i.URL))
	i.Claims(map[string]any{"groups": []string{"visitors", "<b>"}})
	b := p.tab()
	if a := b.ask("GET", b.back(i, "/"), ""); a.StatusCode != http.StatusForbidden || b.cookies["deadman_session"] != "" || !strings.Contains(a.body, "visitors, &lt;b&gt;") || !strings.Contains(a.body, "None of your groups") {
		t.Errorf("%d %v %s", a.StatusCode, b.cookies, a.body)
	}
	i.Claims(map[string]any{"groups": nil})
	i.Info(map[string]any{"sub": "1"})
	if a := b.ask("GET", b.back(i, "/"), ""); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "has no groups") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if all, err := p.keeper.Sessions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("strangers have sessions: %+v %v", all, err)
	}
	i.Claims(map[string]any{"groups": []string{"staff", "sre"}})
	if a := b.ask("GET", b.back(i, "/"), ""); a.StatusCode != http.StatusSeeOther {
		t.Fatal(a.body)
	}
	if a := b.ask("GET", "/api/v1/tokens", ""); a.StatusCode != http.StatusOK {
		t.Errorf("an administrator: %d", a.StatusCode)
	}
	begun := stream(t, p.URL+"/api/v1/alerts", "Cookie", "deadman_session="+b.cookies["deadman_session"])
	p.use(t, strings.Replace(providers(i.URL), "sre", "other", 1))
	if a := b.ask("GET", "/api/v1/tokens", ""); a.StatusCode != http.StatusForbidden || !b.isIn() {
		t.Errorf("without the group of administrators: %d", a.StatusCode)
	}
	ends(t, "a stream of an administrator", begun)
	p.use(t, strings.ReplaceAll(strings.Replace(providers(i.URL), "sre", "other", 1), "staff", "another"))
	if a := b.ask("GET", "/jobs", ""); a.StatusCode != http.StatusForbidden || !strings.Contains(a.body, "staff, sre") {
		t.Errorf("in no group: %d %s", a.StatusCode, a.body)
	}
	p.use(t, providers("https://id.example.org"))
	if b.isIn() {
		t.Error("a person of another provider is in")
	}
	p.use(t, headers)
	if b.isIn() {
		t.Error("a person of a provider that is no more in the file is in")
	}
	p.use(t, providers(i.URL))
	if !b.isIn() {
		t.Error("the session does not go on with the file")
	}
	// A person without permissions can still log out.
	p.use(t, "oidc: {issuer: '"+i.URL+"', client_id: x}\ngroups: [{group: another, scopes: [read]}]\n")
	b.ask("POST", "/logout", "", formOf...)
	if all, err := p.keeper.Sessions(t.Context()); err != nil || len(all) != 0 || len(b.cookies) != 0 {
		t.Errorf("after the log out: %+v %v %v", all, b.cookies, err)
	}
}

// TestSessionsOfPeopleAreRevoked checks that administrators and the person end a person's sessions, and that persons do
// not see each other's.
func TestSessionsOfPeopleAreRevoked(t *testing.T) {
	i := logintest.NewIssuer(t)
	p := newPeople(t, providers(i.URL))
	admin := p.token("root", "", access.Admin)
	var tabs []*tab
	for _, subject := range []string{"1", "1", "2"} { // the third has the name of the first two
		i.Claims(map[string]any{"sub": subject, "groups": []string{"staff"}})
		b := p.tab()
		b.ask("GET", b.back(i, "/"), "")
		tabs = append(tabs, b)
	}
	id := regexp.MustCompile(`"id":"([^"]+)"`)
	for n, want := range map[int]int{0: 2, 2: 1} {
		if got := id.FindAllString(tabs[n].ask("GET", "/api/v1/sessions", "").body, -1); len(got) != want {
			t.Errorf("person %d sees %v", n, got)
		}
	}
	theirs := id.FindStringSubmatch(tabs[2].ask("GET", "/api/v1/sessions", "").body)[1]
	if a := tabs[0].ask("DELETE", "/api/v1/sessions/"+theirs, ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("a person ends the session of another one: %d", a.StatusCode)
	}
	if a := do(t, p.Server, "DELETE", "/api/v1/sessions/"+theirs, "", admin...); a.StatusCode != http.StatusNoContent || tabs[2].isIn() || !tabs[0].isIn() {
		t.Errorf("an administrator: %d %s", a.StatusCode, a.body)
	}
}

// TestWithoutAProvider checks that without a provider in the file, its routes and button do not exist.
func TestWithoutAProvider(t *testing.T) {
	for _, p := range []*people{newPeople(t, headers), {stand: newStand(t, closed)}} {
		if a := p.tab().ask("GET", "/login", ""); strings.Contains(a.body, "oidc") || !strings.Contains(a.body, "autofocus") {
			t.Errorf("%s", a.body)
		}
		for _, r := range []string{"POST /login/oidc", "GET /login/oidc/callback?code=x&state=y"} {
			method, path, _ := strings.Cut(r, " ")
			if a := p.tab().ask(method, path, "", formOf...); a.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %d", r, a.StatusCode)
			}
		}
	}
}
