package ui_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const tenantRule = `name: acme-late
entity: order
trigger: {event: acme.created, key: event.id}
escalate: [{after: 1h, step: primary}]
`

// callAs calls the API with headers.
func callAs(t *testing.T, home, method, path, body string, headers map[string]string, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, home+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(out); err != nil || answer.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %d %v %v", method, path, answer.StatusCode, out, err)
	}
}

// setQuota saves a rule of acme and sets the limits of its prefix, as an admin.
func setQuota(t *testing.T, home string, headers map[string]string) {
	t.Helper()
	var done any
	as := maps.Clone(headers)
	as["Content-Type"] = "application/yaml"
	callAs(t, home, "PUT", "/rules/acme-late", tenantRule, as, &done)
	callAs(t, home, "PUT", "/quotas/acme-", `{"rules": 7, "alert_bytes": 4096}`, headers, &done)
}

// checkQuota checks that the page has the limits of setQuota, their use, and the defaults.
func (b *tab) checkQuota() {
	b.Helper()
	row := func(limit string) string {
		return evaluate[string](b, `[...document.querySelectorAll("#quota tbody tr")].find((r) => r.cells[0].innerText === "`+limit+`").innerText.replace(/\s+/g, " ").trim()`)
	}
	// The use is counted every few seconds.
	for deadline := time.Now().Add(within); row("rules") != "rules 1 7 admin 0"; b.visit("/sessions") {
		if time.Now().After(deadline) {
			b.Fatalf("the page shows %q of the rules", row("rules"))
		}
	}
	for limit, want := range map[string]string{"alert_bytes": "alert_bytes 0 4,096 admin 0", "jobs": "jobs 0 100,000 default 0"} {
		if got := row(limit); got != want {
			b.Errorf("the page shows %q, want %q", got, want)
		}
	}
}

// boundText returns a bound from the page of sessions.
func (b *tab) boundText(name string) string {
	b.Helper()
	return evaluate[string](b, `[...document.querySelectorAll("#access dt")].find((d) => d.innerText === "`+name+`").nextElementSibling.innerText`)
}

// checkBounds checks the bounds on the page of sessions.
func (b *tab) checkBounds(want map[string]string) {
	b.Helper()
	for name, wantText := range want {
		if got := b.boundText(name); got != wantText {
			b.Errorf("bound %s is %q on the page, want %q", name, got, wantText)
		}
	}
}

// runWithLogin runs a node that requires a token, and returns the secret of its first one.
func runWithLogin(t *testing.T) (home, secret string) {
	t.Helper()
	c := config(t.TempDir())
	c.HTTPAddr = "0.0.0.0:0"
	first := make(chan string, 1)
	c.FirstToken = func(secret, _ string) { first <- secret }
	home, _ = run(t, c)
	at, err := url.Parse(home)
	if err != nil {
		t.Fatal(err)
	}
	return "http://127.0.0.1:" + at.Port(), <-first
}

// TestTokenBoundsAreShown checks that a token with a prefix sees its prefix in the footer of each page, and its
// bounds and quota on the page of sessions.
func TestTokenBoundsAreShown(t *testing.T) {
	t.Parallel()
	home, secret := runWithLogin(t)
	admin := map[string]string{"Authorization": "Bearer " + secret}
	var made struct{ Secret string }
	callAs(t, home, "POST", "/tokens", `{"name": "acme", "scopes": ["rules", "events"], "prefix": "acme-*", "subjects": ["acme.>", "shared.orders.*"], "publish": ["acme.>"], "sources": ["acme-*"]}`, admin, &made)
	setQuota(t, home, admin)

	b := open(t, home, 1400, 900)
	b.visit("/login?token=" + made.Secret)
	b.click(".login button")
	const foot = "Logged in as acme, for the rules acme-*; subjects acme.>, shared.orders.*; publish acme.>; sources acme-*; handlers none"
	b.waitForText(foot)
	for _, page := range []string{"/rules", "/rules/acme-late", "/jobs", "/alerts", "/history", "/sessions"} {
		b.visit(page)
		b.waitForText(foot)
	}
	b.checkBounds(map[string]string{
		"Login": "acme", "Scopes": "read, events, oncall, rules", "Rules": "acme-*", "Subjects": "acme.>, shared.orders.*", "Publish": "acme.>", "Sources": "acme-*", "Handlers": "none",
	})
	b.checkQuota()
	b.checkAccessibility("the bounds of a token")
	b.screenshot("bounds")
	b.resize(400, 800)
	b.setDarkMode(true)
	b.checkAccessibility("the bounds of a token, narrow")
	b.screenshot("bounds-narrow")

	// An admin has no bounds and no quota.
	b.do(chromedp.ScrollIntoView(chromedp.CSS("footer .self")))
	b.click("footer .self button")
	b.visit("/login?token=" + strings.TrimPrefix(admin["Authorization"], "Bearer "))
	b.click(".login button")
	b.visit("/sessions")
	b.checkBounds(map[string]string{"Login": "first", "Rules": "all", "Subjects": "all", "Publish": "all", "Sources": "all", "Handlers": "all"})
	b.waitForScript(`!document.querySelector("#quota") && !document.querySelector("footer").innerText.includes("for the rules")`)
}

// TestPersonBoundsAreShown checks that a person named by a proxy's headers sees the bounds of the group's
// grant.
func TestPersonBoundsAreShown(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	c.FirstToken, c.Login = func(string, string) {}, filepath.Join(t.TempDir(), "login.yaml")
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	text := "header: {name: X-User, groups: X-Groups}\ngroups: [{group: sre, scopes: [admin]}, {group: acme, scopes: [oncall], prefix: acme-*, subjects: [acme.>]}]\n"
	if err := os.WriteFile(c.Login, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	node, _ := run(t, c)
	setQuota(t, node, map[string]string{"X-User": "ann", "X-Groups": "sre"})
	at, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(at)
		r.SetXForwarded()
		r.Out.Header.Set("X-User", "bob")
		r.Out.Header.Set("X-Groups", "staff, acme")
	}})
	t.Cleanup(proxy.Close)

	b := open(t, proxy.URL, 1400, 900)
	for _, page := range []string{"/", "/rules/acme-late", "/sessions"} {
		b.visit(page)
		b.waitForText("Logged in as proxy:bob, for the rules acme-*; subjects acme.>; publish none; sources none; handlers none")
		b.waitForScript(`!document.querySelector("footer .self button")`) // the proxy logs people out
	}
	b.checkBounds(map[string]string{"Login": "proxy:bob", "Scopes": "read, oncall", "Rules": "acme-*", "Subjects": "acme.>", "Publish": "none", "Sources": "none", "Handlers": "none"})
	b.checkQuota()
	b.checkAccessibility("the bounds of a person")
	b.screenshot("bounds-person")
}

// TestOpenNodeReportsItsAccess checks that an open node shows on each page that it requires no login.
func TestOpenNodeReportsItsAccess(t *testing.T) {
	t.Parallel()
	home := serve(t, tenantRule)
	b := open(t, home, 1400, 900)
	for _, page := range []string{"/", "/rules/acme-late", "/sessions"} {
		b.visit(page)
		b.waitForText("Login is disabled: every visitor has full access")
	}
	b.checkBounds(map[string]string{"Login": "none (open node)", "Scopes": "read, events, oncall, rules, admin", "Rules": "all", "Subjects": "all", "Handlers": "all"})
	b.waitForScript(`!document.querySelector("#quota") && !document.querySelector("footer .self")`)
	b.checkAccessibility("an open node")
	b.screenshot("bounds-open")
}
