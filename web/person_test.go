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

// people is a stand with logins of persons without a token.
type people struct {
	*stand
	config atomic.Pointer[logins.Config]
	log    *lines
	reader []string // header of a token that reads metrics
}

// lines is the logged lines.
type lines struct {
	atomic.Pointer[string]
}

func (l *lines) Write(b []byte) (int, error) {
	text := l.text() + string(b)
	l.Store(&text)
	return len(b), nil
}

func (l *lines) text() string {
	if text := l.Load(); text != nil {
		return *text
	}
	return ""
}

// headers is a login file with a proxy that names persons.
const headers = "header: {name: X-Forwarded-User, groups: X-Forwarded-Groups}\n" + grants

const grants = `groups:
  - {group: sre, scopes: [admin]}
  - {group: acme, scopes: [rules, events], prefix: acme-*, subjects: [acme.>], publish: [acme.>]}
  - {group: staff, scopes: [read]}
`

// newPeople makes a closed stand with a login file and 127.0.0.0/8 as the only trusted proxy.
func newPeople(t *testing.T, text string, changes ...func(*web.Options, *stand)) *people {
	t.Helper()
	p := &people{log: &lines{}}
	p.use(t, text)
	p.stand = newStand(t, append([]func(*web.Options, *stand){closed, func(o *web.Options, _ *stand) {
		o.Logins, o.TrustedProxies, o.Log = p.config.Load, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, slog.New(slog.NewTextHandler(p.log, nil))
	}}, changes...)...)
	return p
}

// use reads another login file.
func (p *people) use(t *testing.T, text string) {
	t.Helper()
	config, err := logins.Parse([]byte(text), "login.yaml", logins.Options{Env: func(string) string { return logintest.Secret }, Now: time.Now})
	fatal(t, err)
	if config.OIDC != nil {
		t.Cleanup(config.OIDC.Close)
	}
	p.config.Store(config)
}

// named returns the headers of a proxy that name a person.
func named(name, groups string) []string {
	return []string{"X-Forwarded-User", name, "X-Forwarded-Groups", groups}
}

// refusals returns the count of refusals of a kind.
func (p *people) refusals(kind string) string {
	p.t.Helper()
	if p.reader == nil {
		p.reader = p.token("metrics", "", access.Read)
	}
	a := do(p.t, p.Server, "GET", "/metrics", "", p.reader...)
	for line := range strings.SplitSeq(a.body, "\n") {
		if count, is := strings.CutPrefix(line, `deadman_refused_tokens_total{kind="`+kind+`"} `); is {
			return count
		}
	}
	return "0"
}

// TestAProxyNamesPeople checks that headers of a trusted proxy name a person with permissions by group, and that those
// of any other connection are ignored.
func TestAProxyNamesPeople(t *testing.T) {
	p := newPeople(t, headers)
	self := func(a answer) (s web.TokenSelf) {
		t.Helper()
		if a.StatusCode == http.StatusOK {
			fatal(t, json.Unmarshal([]byte(a.body), &s))
		}
		return s
	}
	const path = "/api/v1/tokens/self"
	for groups, want := range map[string]string{
		"sre": "read events oncall rules admin", "staff,sre": "read events oncall rules admin", " staff , other": "read", "acme,staff": "read events oncall rules",
		"": "", "SRE": "", "sre;staff": "", "other": "", "sre staff": "",
	} {
		got := self(do(t, p.Server, "GET", path, "", named("ann", groups)...))
		if strings.Join(got.Scopes, " ") != want || want != "" && (got.Name != "proxy:ann" || got.Login != "proxy" || got.Open) {
			t.Errorf("groups %q: %+v, want %q", groups, got, want)
		}
	}
	isProblem(t, do(t, p.Server, "GET", path, "", named("ann", "a<b>,other")...), 403, web.Forbidden, "proxy:ann has the groups a<b>, other, to which")
	if a := do(t, p.Server, "GET", "/", "", append(named("ann", "<b>x</b>"), html...)...); a.StatusCode != 403 || !strings.Contains(a.body, "None of your groups may use deadman") || strings.Contains(a.body, "<b>x") {
		t.Errorf("a page: %d %s", a.StatusCode, a.body)
	}
	// From other addresses they are ignored, even beside a token.
	for _, addr := range []string{"192.0.2.7", "10.0.0.1", "::1"} {
		isProblem(t, p.from(bracketed(addr), "GET", path, "", named("ann", "sre")...), 401, web.Unauthorized, "a token is required")
	}
	token := p.token("ci", "", access.Read)
	for _, addr := range []string{"192.0.2.7", "127.0.0.1"} { // permissions of both are never combined
		if got := self(p.from(addr, "GET", path, "", append(named("ann", "sre"), token...)...)); got.Name != "ci" || len(got.Scopes) != 1 {
			t.Errorf("a token beside the headers, from %s: %+v", addr, got)
		}
		a := p.from(addr, "GET", path, "", append(named("ann", "sre"), "Authorization", "Bearer dm_wrong")...)
		if a.StatusCode != http.StatusUnauthorized {
			t.Errorf("a wrong token beside the headers, from %s: %d", addr, a.StatusCode)
		}
	}
	// A forged client address does not make the connection a trusted proxy.
	isProblem(t, p.from("192.0.2.9", "GET", path, "", append(named("ann", "sre"), "X-Forwarded-For", "127.0.0.1")...), 401, web.Unauthorized, "token")
	other := newPeople(t, headers)
	other.from("192.0.2.9", "GET", path, "", named("ann", "sre")...)
	if got := other.refusals("proxy"); got != "1" || !strings.Contains(other.log.text(), "X-Forwarded-User counts for nothing") {
		t.Errorf("of a header from elsewhere %s is counted, and the log says %s", got, other.log.text())
	}
	do(t, other.Server, "GET", path, "", named("ann", "x")...)
	if got := other.refusals("proxy"); got != "2" {
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
	p := newPeople(t, headers)
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

// TestAPersonBehindAProxyWorks checks that a person can use pages and forms, in the person's name and with the group's
// permissions.
func TestAPersonBehindAProxyWorks(t *testing.T) {
	p := newPeople(t, headers)
	ann := named("ann", "sre")
	page := do(t, p.Server, "GET", "/rules", "", append(ann, html...)...)
	if page.StatusCode != http.StatusOK || !strings.Contains(page.body, "<bdi>proxy:ann</bdi>") || strings.Contains(page.body, "Log out") {
		t.Errorf("a page: %d %s", page.StatusCode, page.body)
	}
	if a := do(t, p.Server, "POST", "/rules/order-unshipped", "do=pause", append(ann, formOf...)...); a.StatusCode >= 400 {
		t.Errorf("a form: %d %s", a.StatusCode, a.body)
	}
	for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
		a := do(t, p.Server, "POST", "/api/v1/rules/order-unshipped/resume", "", append(ann, from...)...)
		isProblem(t, a, 403, web.Forbidden, "another site")
	}
	want := []web.AuditEntry{{Actor: "proxy:ann", Addr: "127.0.0.1", Action: "rule.pause", Object: "rule/order-unshipped"}}
	if diff := cmp.Diff(want, audited(t, p.stand, "rule.pause", ann)); diff != "" {
		t.Errorf("audited (-want +got):\n%s", diff)
	}
	// The rule that the person saves has the tenant's bounds.
	bob := named("bob", "acme")
	isProblem(t, do(t, p.Server, "PUT", "/api/v1/rules/acme-x", acmeRule("orders.>"), bob...), 422, web.RuleInvalid, "proxy:bob may not read")
	if a := do(t, p.Server, "PUT", "/api/v1/rules/acme-x", acmeRule("acme.created"), bob...); a.StatusCode >= 300 {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	isProblem(t, do(t, p.Server, "PUT", "/api/v1/rules/other", acmeRule("acme.created"), bob...), 403, web.Forbidden, "proxy:bob is limited to the rules acme-*")
	// The login page redirects to the requested page; a person named by the proxy cannot log in with a token.
	if a := do(t, p.Server, "GET", "/login?next=%2Frules", "", append(ann, html...)...); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/rules" {
		t.Errorf("the way in: %d %v", a.StatusCode, a.Header)
	}
	if a := do(t, p.Server, "GET", "/login", "", append(named("eve", "x"), html...)...); a.StatusCode != http.StatusForbidden {
		t.Errorf("the way in of a stranger: %d", a.StatusCode)
	}
	// A session cookie is ignored if the proxy names a person.
	session := p.login(p.token("root", "", access.Admin))
	for who, status := range map[string]int{"staff": 403, "none": 403} {
		if a := do(t, p.Server, "GET", "/api/v1/tokens", "", append(named("ann", who), session...)...); a.StatusCode != status {
			t.Errorf("a session beside the headers: %d", a.StatusCode)
		}
	}
	// The file applies at once after it is read again.
	p.use(t, "header: {name: X-Forwarded-User, groups: X-Forwarded-Groups}\ngroups: [{group: staff, scopes: [read]}]\n")
	if a := do(t, p.Server, "GET", "/api/v1/jobs", "", ann...); a.StatusCode != http.StatusForbidden {
		t.Errorf("a group that is in the file no more: %d", a.StatusCode)
	}
	p.config.Store(nil)
	if a := do(t, p.Server, "GET", "/api/v1/jobs", "", named("ann", "staff")...); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a login file: %d", a.StatusCode)
	}
}

// TestPeopleAreApart checks that limits and stored answers are separate for each person.
func TestPeopleAreApart(t *testing.T) {
	p := newPeople(t, headers, func(o *web.Options, _ *stand) { o.TokenRate = 3 })
	pause := func(who string) int {
		return do(t, p.Server, "POST", "/api/v1/mutes", `{"match": {"rule": "x"}, "reason": "r", "for": "1h"}`, append(named(who, "sre"), "Idempotency-Key", "1", "Content-Type", "application/json")...).StatusCode
	}
	replayed := func(who string) string {
		return do(t, p.Server, "POST", "/api/v1/mutes", `{"match": {"rule": "x"}, "reason": "r", "for": "1h"}`, append(named(who, "sre"), "Idempotency-Key", "1", "Content-Type", "application/json")...).Header.Get("Idempotent-Replayed")
	}
	if got := pause("ann"); got != http.StatusCreated {
		t.Fatal(got)
	}
	if replayed("ann") != "true" || replayed("bob") != "" {
		t.Error("a key of one person answers another one, or not its own")
	}
	status := 0
	for range 20 {
		if status = do(t, p.Server, "GET", "/api/v1/jobs", "", named("ann", "sre")...).StatusCode; status == http.StatusTooManyRequests {
			break
		}
	}
	if other := do(t, p.Server, "GET", "/api/v1/jobs", "", named("cat", "sre")...).StatusCode; status != http.StatusTooManyRequests || other != http.StatusOK {
		t.Errorf("beyond the limit %d, and another person %d", status, other)
	}
}

// TestAStreamEndsWithTheGrant checks that a stream of a person named by a proxy ends with the group's grant.
func TestAStreamEndsWithTheGrant(t *testing.T) {
	for name, text := range map[string]string{
		"group": strings.Replace(headers, "sre", "other", 1), "scopes": strings.Replace(headers, "admin", "oncall", 1), "bounds": strings.Replace(headers, "scopes: [admin]", "scopes: [rules], subjects: [a]", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeople(t, headers)
			begun := stream(t, p.URL+"/api/v1/alerts", named("ann", "sre")...)
			p.use(t, text)
			ends(t, "the stream", begun)
		})
	}
}

// acmeRule returns a rule with a subject.
func acmeRule(subject string) string {
	return "name: acme-x\nentity: acme\ntrigger: {event: " + subject + ", key: event.id}\nescalate: [{after: 3h, text: late}]\n"
}
