package web_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"deadman/internal/access"
	"deadman/internal/logins"
	"deadman/internal/logins/logintest"
	"deadman/web"
)

// loginFixture is a fixture with logins of persons without a token.
type loginFixture struct {
	*fixture
	config atomic.Pointer[logins.Config]
	log    *logBuffer
	reader []string // header of a token that reads metrics
}

// logBuffer is the logged lines.
type logBuffer struct {
	atomic.Pointer[string]
}

func (l *logBuffer) Write(b []byte) (int, error) {
	text := l.text() + string(b)
	l.Store(&text)
	return len(b), nil
}

func (l *logBuffer) text() string {
	if text := l.Load(); text != nil {
		return *text
	}
	return ""
}

// headers is a login file with a proxy that names persons.
const headers = "header: {name: X-Forwarded-User, groups: X-Forwarded-Groups}\n" + groupGrants

const groupGrants = `groups:
  - {group: sre, scopes: [admin]}
  - {group: acme, scopes: [rules, events], prefix: acme-*, subjects: [acme.>], publish: [acme.>]}
  - {group: staff, scopes: [read]}
`

// newLoginFixture makes a closed fixture with a login file and 127.0.0.0/8 as the only trusted proxy.
func newLoginFixture(t *testing.T, text string, changes ...func(*web.Options, *fixture)) *loginFixture {
	t.Helper()
	p := &loginFixture{log: &logBuffer{}}
	p.writeLoginFile(t, text)
	p.fixture = newFixture(t, append([]func(*web.Options, *fixture){closedNode, func(o *web.Options, _ *fixture) {
		o.Logins, o.TrustedProxies, o.Log = p.config.Load, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, slog.New(slog.NewTextHandler(p.log, nil))
	}}, changes...)...)
	return p
}

// writeLoginFile reads another login file.
func (p *loginFixture) writeLoginFile(t *testing.T, text string) {
	t.Helper()
	config, err := logins.Parse([]byte(text), "login.yaml", logins.Options{Env: func(string) string { return logintest.Secret }, Now: time.Now})
	failOn(t, err)
	if config.OIDC != nil {
		t.Cleanup(config.OIDC.Close)
	}
	p.config.Store(config)
}

// proxyHeaders returns the headers of a proxy that name a person.
func proxyHeaders(name, groups string) []string {
	return []string{"X-Forwarded-User", name, "X-Forwarded-Groups", groups}
}

// countRefusals returns the count of refusals of a kind.
func (p *loginFixture) countRefusals(kind string) string {
	p.t.Helper()
	if p.reader == nil {
		p.reader = p.newToken("metrics", "", access.Read)
	}
	a := requestPath(p.t, p.Server, "GET", "/metrics", "", p.reader...)
	for line := range strings.SplitSeq(a.body, "\n") {
		if count, is := strings.CutPrefix(line, `deadman_refused_tokens_total{kind="`+kind+`"} `); is {
			return count
		}
	}
	return "0"
}

// TestProxyHeadersNameUser checks that headers of a trusted proxy name a person with permissions by group, and that those
// of any other connection are ignored.
func TestProxyHeadersNameUser(t *testing.T) {
	p := newLoginFixture(t, headers)
	self := func(a answer) (s web.TokenSelf) {
		t.Helper()
		if a.StatusCode == http.StatusOK {
			failOn(t, json.Unmarshal([]byte(a.body), &s))
		}
		return s
	}
	const path = "/api/v1/tokens/self"
	for groups, want := range map[string]string{
		"sre": "read events oncall rules admin", "staff,sre": "read events oncall rules admin", " staff , other": "read", "acme,staff": "read events oncall rules",
		"": "", "SRE": "", "sre;staff": "", "other": "", "sre staff": "",
	} {
		got := self(requestPath(t, p.Server, "GET", path, "", proxyHeaders("ann", groups)...))
		if strings.Join(got.Scopes, " ") != want || want != "" && (got.Name != "proxy:ann" || got.Login != "proxy" || got.Open) {
			t.Errorf("groups %q: %+v, want %q", groups, got, want)
		}
	}
	checkProblem(t, requestPath(t, p.Server, "GET", path, "", proxyHeaders("ann", "a<b>,other")...), 403, web.Forbidden, "proxy:ann has the groups a<b>, other, to which")
	if a := requestPath(t, p.Server, "GET", "/", "", append(proxyHeaders("ann", "<b>x</b>"), htmlHeader...)...); a.StatusCode != 403 || !strings.Contains(a.body, "None of your groups may use deadman") || strings.Contains(a.body, "<b>x") {
		t.Errorf("a page: %d %s", a.StatusCode, a.body)
	}
	// From other addresses they are ignored, even beside a token.
	for _, addr := range []string{"192.0.2.7", "10.0.0.1", "::1"} {
		checkProblem(t, p.requestFrom(bracketed(addr), "GET", path, "", proxyHeaders("ann", "sre")...), 401, web.Unauthorized, "a token is required")
	}
	token := p.newToken("ci", "", access.Read)
	for _, addr := range []string{"192.0.2.7", "127.0.0.1"} { // permissions of both are never combined
		if got := self(p.requestFrom(addr, "GET", path, "", append(proxyHeaders("ann", "sre"), token...)...)); got.Name != "ci" || len(got.Scopes) != 1 {
			t.Errorf("a token beside the headers, from %s: %+v", addr, got)
		}
		a := p.requestFrom(addr, "GET", path, "", append(proxyHeaders("ann", "sre"), "Authorization", "Bearer dm_wrong")...)
		if a.StatusCode != http.StatusUnauthorized {
			t.Errorf("a wrong token beside the headers, from %s: %d", addr, a.StatusCode)
		}
	}
	// A forged client address does not make the connection a trusted proxy.
	checkProblem(t, p.requestFrom("192.0.2.9", "GET", path, "", append(proxyHeaders("ann", "sre"), "X-Forwarded-For", "127.0.0.1")...), 401, web.Unauthorized, "token")
	other := newLoginFixture(t, headers)
	other.requestFrom("192.0.2.9", "GET", path, "", proxyHeaders("ann", "sre")...)
	if got := other.countRefusals("proxy"); got != "1" || !strings.Contains(other.log.text(), "X-Forwarded-User counts for nothing") {
		t.Errorf("a header from another address: counted %s, log %s", got, other.log.text())
	}
	requestPath(t, other.Server, "GET", path, "", proxyHeaders("ann", "x")...)
	if got := other.countRefusals("proxy"); got != "2" {
		t.Errorf("with a person without a group, %s are counted", got)
	}
}

func bracketed(addr string) string {
	if strings.Contains(addr, ":") {
		return "[" + addr + "]"
	}
	return addr
}

// TestDuplicateHeader checks that a request with both the client's and the proxy's header is refused.
func TestDuplicateHeader(t *testing.T) {
	p := newLoginFixture(t, headers)
	for _, header := range []http.Header{
		{"X-Forwarded-User": {"root", "ann"}, "X-Forwarded-Groups": {"sre"}},
		{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"sre", "staff"}},
		{"X-Forwarded-User": {"a\x7fnn"}, "X-Forwarded-Groups": {"sre"}},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/jobs", nil)
		r.RemoteAddr, r.Header = "127.0.0.1:1", header
		w := httptest.NewRecorder()
		p.Config.Handler.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%v: %d %s", header, w.Code, w.Body)
		}
	}
}

// TestProxyUserUsesPages checks that a person can use pages and forms, in the person's name and with the group's
// permissions.
func TestProxyUserUsesPages(t *testing.T) {
	p := newLoginFixture(t, headers)
	ann := proxyHeaders("ann", "sre")
	page := requestPath(t, p.Server, "GET", "/rules", "", append(ann, htmlHeader...)...)
	if page.StatusCode != http.StatusOK || !strings.Contains(page.body, "<bdi>proxy:ann</bdi>") || strings.Contains(page.body, "Log out") {
		t.Errorf("a page: %d %s", page.StatusCode, page.body)
	}
	if a := requestPath(t, p.Server, "POST", "/rules/order-unshipped", "do=pause", append(ann, formOf...)...); a.StatusCode >= 400 {
		t.Errorf("a form: %d %s", a.StatusCode, a.body)
	}
	for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		a := requestPath(t, p.Server, "POST", "/api/v1/rules/order-unshipped/resume", "", append(ann, from...)...)
		checkProblem(t, a, 403, web.Forbidden, "another site")
	}
	want := []web.AuditEntry{{Actor: "proxy:ann", Addr: "127.0.0.1", Action: "rule.pause", Object: "rule/order-unshipped"}}
	if diff := cmp.Diff(want, auditOf(t, p.fixture, "rule.pause", ann)); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}
	// The rule that the person saves has the tenant's bounds.
	bob := proxyHeaders("bob", "acme")
	checkProblem(t, requestPath(t, p.Server, "PUT", "/api/v1/rules/acme-x", acmeRule("orders.>"), bob...), 422, web.RuleInvalid, "proxy:bob may not read")
	if a := requestPath(t, p.Server, "PUT", "/api/v1/rules/acme-x", acmeRule("acme.created"), bob...); a.StatusCode >= 300 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	checkProblem(t, requestPath(t, p.Server, "PUT", "/api/v1/rules/other", acmeRule("acme.created"), bob...), 403, web.Forbidden, "proxy:bob is limited to the rules acme-*")
	// The login page redirects to the requested page; a person named by the proxy cannot log in with a token.
	if a := requestPath(t, p.Server, "GET", "/login?next=%2Frules", "", append(ann, htmlHeader...)...); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/rules" {
		t.Errorf("the way in: %d %v", a.StatusCode, a.Header)
	}
	if a := requestPath(t, p.Server, "GET", "/login", "", append(proxyHeaders("eve", "x"), htmlHeader...)...); a.StatusCode != http.StatusForbidden {
		t.Errorf("the way in of a stranger: %d", a.StatusCode)
	}
	// A session cookie is ignored if the proxy names a person.
	session := p.logIn(p.newToken("root", "", access.Admin))
	for who, status := range map[string]int{"staff": 403, "none": 403} {
		if a := requestPath(t, p.Server, "GET", "/api/v1/tokens", "", append(proxyHeaders("ann", who), session...)...); a.StatusCode != status {
			t.Errorf("a session beside the headers: %d", a.StatusCode)
		}
	}
	// The file applies at once after it is read again.
	p.writeLoginFile(t, "header: {name: X-Forwarded-User, groups: X-Forwarded-Groups}\ngroups: [{group: staff, scopes: [read]}]\n")
	if a := requestPath(t, p.Server, "GET", "/api/v1/jobs", "", ann...); a.StatusCode != http.StatusForbidden {
		t.Errorf("a group that is in the file no more: %d", a.StatusCode)
	}
	p.config.Store(nil)
	if a := requestPath(t, p.Server, "GET", "/api/v1/jobs", "", proxyHeaders("ann", "staff")...); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a login file: %d", a.StatusCode)
	}
}

// TestUsersAreSeparate checks that limits and stored answers are separate for each person.
func TestUsersAreSeparate(t *testing.T) {
	p := newLoginFixture(t, headers, func(o *web.Options, _ *fixture) { o.TokenRate = 3 })
	pause := func(who string) int {
		return requestPath(t, p.Server, "POST", "/api/v1/mutes", `{"match": {"rule": "x"}, "reason": "r", "for": "1h"}`, append(proxyHeaders(who, "sre"), "Idempotency-Key", "1", "Content-Type", "application/json")...).StatusCode
	}
	replayed := func(who string) string {
		return requestPath(t, p.Server, "POST", "/api/v1/mutes", `{"match": {"rule": "x"}, "reason": "r", "for": "1h"}`, append(proxyHeaders(who, "sre"), "Idempotency-Key", "1", "Content-Type", "application/json")...).Header.Get("Idempotent-Replayed")
	}
	if got := pause("ann"); got != http.StatusCreated {
		t.Fatal(got)
	}
	if replayed("ann") != "true" || replayed("bob") != "" {
		t.Error("a key of one person answers another one, or not its own")
	}
	status := 0
	for range 20 {
		if status = requestPath(t, p.Server, "GET", "/api/v1/jobs", "", proxyHeaders("ann", "sre")...).StatusCode; status == http.StatusTooManyRequests {
			break
		}
	}
	if other := requestPath(t, p.Server, "GET", "/api/v1/jobs", "", proxyHeaders("cat", "sre")...).StatusCode; status != http.StatusTooManyRequests || other != http.StatusOK {
		t.Errorf("beyond the limit %d, and another person %d", status, other)
	}
}

// TestStreamEndsWithGrant checks that a stream of a person named by a proxy ends with the group's grant.
func TestStreamEndsWithGrant(t *testing.T) {
	for name, text := range map[string]string{
		"group": strings.Replace(headers, "sre", "other", 1), "scopes": strings.Replace(headers, "admin", "oncall", 1), "bounds": strings.Replace(headers, "scopes: [admin]", "scopes: [rules], subjects: [a]", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLoginFixture(t, headers)
			begun := openStream(t, p.URL+"/api/v1/alerts", proxyHeaders("ann", "sre")...)
			p.writeLoginFile(t, text)
			waitForEnd(t, "the stream", begun)
		})
	}
}

// acmeRule returns a rule with a subject.
func acmeRule(subject string) string {
	return "name: acme-x\nentity: acme\ntrigger: {event: " + subject + ", key: event.id}\nescalate: [{after: 3h, text: late}]\n"
}
