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

// TestProviderLogin checks the login through a real provider on another site, the redirect to the requested
// page, the shown name and permissions, and the logout. A person without a configured group is told so.
func TestProviderLogin(t *testing.T) {
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
	b.otherSite = issuer
	b.visit("/jobs")
	b.waitForScript(`location.pathname === "/login"`)
	b.waitForText("Log in with Example ID", "or with a token")
	b.checkAccessibility("the login with a provider")
	b.screenshot("login-provider")
	b.resize(400, 800)
	b.setDarkMode(true)
	b.screenshot("login-provider-narrow")
	b.setDarkMode(false)
	b.resize(1400, 900)
	b.logInAtProvider("ann")
	b.waitForScript(`location.pathname === "/jobs"`)
	b.waitForText("Logged in as oidc:ann@example.org")
	if cookies := evaluate[string](b, `document.cookie`); cookies != "" {
		t.Errorf("a script reads %q", cookies)
	}
	b.screenshot("logged-in-provider")
	b.visit("/new-rule")
	b.waitForText("New rule")
	b.visit("/sessions")
	b.waitForText("this browser", "oidc:ann@example.org")
	b.screenshot("sessions-provider")
	b.checkAccessibility("sessions of people")
	b.do(chromedp.ScrollIntoView(chromedp.CSS("footer .self")))
	b.click("footer .self button")
	b.waitForText("Log in with Example ID")
	b.visit("/jobs")
	b.waitForScript(`location.pathname === "/login"`)

	b = open(t, home, 1400, 900)
	b.otherSite = issuer
	b.visit("/login")
	b.logInAtProvider("bob")
	b.waitForText("Logged in as oidc:bob@example.org, for the rules acme-*")

	b = open(t, home, 1400, 900)
	b.otherSite, b.allowedStatus = issuer, "403"
	b.visit("/login")
	b.logInAtProvider("eve")
	b.waitForText("None of your groups may use deadman", "visitors")
	b.screenshot("login-stranger")
	b.checkAccessibility("a stranger")
}

// logInAtProvider goes from the login page to the provider, and enters the name and password.
func (b *tab) logInAtProvider(name string) {
	b.Helper()
	b.click(".login .provider button")
	b.waitForScript(`location.pathname === "/login/username"`)
	b.do(chromedp.SendKeys(chromedp.CSS("[name=username]"), name))
	b.do(chromedp.SendKeys(chromedp.CSS("[name=password]"), name))
	b.click("button[type=submit]")
}
