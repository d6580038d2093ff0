package ui_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"deadman/internal/logins/logintest"
)

// freePort returns a free loopback port.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// TestLoggedInByAProvider checks the login through a real provider on another site, the redirect to the requested
// page, the shown name and permissions, and the logout. A person without a configured group is told so.
func TestLoggedInByAProvider(t *testing.T) {
	t.Parallel()
	port, folder := freePort(t), t.TempDir()
	home := fmt.Sprintf("http://localhost:%d", port)
	issuer := logintest.Provider(t, home+"/login/oidc/callback")
	c := config(t.TempDir())
	c.HTTPAddr, c.FirstToken, c.Login = fmt.Sprintf("127.0.0.1:%d", port), func(string, string) {}, filepath.Join(folder, "login.yaml")
	for name, text := range map[string]string{
		"secret": logintest.Secret,
		"login.yaml": "oidc: {issuer: '" + issuer + "', title: Example ID, client_id: " + logintest.Client + ", client_secret_file: secret, scopes: [email, groups]}\n" +
			"groups: [{group: sre, scopes: [admin]}, {group: acme, scopes: [oncall], prefix: acme-*, subjects: [acme.>]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, c)
	b := open(t, home, 1400, 900)
	b.elsewhere = issuer
	b.visit("/jobs")
	b.finds(`location.pathname === "/login"`)
	b.shows("Log in with Example ID", "or with a token")
	b.accessible("the login with a provider")
	b.shoot("login-provider")
	b.resize(400, 800)
	b.dark(true)
	b.shoot("login-provider-narrow")
	b.dark(false)
	b.resize(1400, 900)
	b.atProvider("ann")
	b.finds(`location.pathname === "/jobs"`)
	b.shows("Logged in as oidc:ann@example.org")
	if cookies := evaluate[string](b, `document.cookie`); cookies != "" {
		t.Errorf("a script reads %q", cookies)
	}
	b.shoot("logged-in-provider")
	b.visit("/new-rule")
	b.shows("New rule")
	b.visit("/sessions")
	b.shows("this browser", "oidc:ann@example.org")
	b.shoot("sessions-provider")
	b.accessible("sessions of people")
	b.do(chromedp.ScrollIntoView(chromedp.CSS("footer .self")))
	b.click("footer .self button")
	b.shows("Log in with Example ID")
	b.visit("/jobs")
	b.finds(`location.pathname === "/login"`)

	b = open(t, home, 1400, 900)
	b.elsewhere = issuer
	b.visit("/login")
	b.atProvider("bob")
	b.shows("Logged in as oidc:bob@example.org, for the rules acme-*")

	b = open(t, home, 1400, 900)
	b.elsewhere, b.refused = issuer, "403"
	b.visit("/login")
	b.atProvider("eve")
	b.shows("None of your groups may use deadman", "visitors")
	b.shoot("login-stranger")
	b.accessible("a stranger")
}

// atProvider goes from the login page to the provider, and enters the name and password.
func (b *tab) atProvider(name string) {
	b.Helper()
	b.click(".login .provider button")
	b.finds(`location.pathname === "/login/username"`)
	b.do(chromedp.SendKeys(chromedp.CSS("[name=username]"), name))
	b.do(chromedp.SendKeys(chromedp.CSS("[name=password]"), name))
	b.click("button[type=submit]")
}
