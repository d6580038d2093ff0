package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestLoggedIn checks that the address printed by the node shows a filled-in form, that one click logs in, and that
// the footer shows the login and logs out.
func TestLoggedIn(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	c.HTTPAddr = "0.0.0.0:0" // beyond loopback the node requires tokens, and creates the first
	first := make(chan string, 1)
	c.FirstToken = func(secret, _ string) { first <- secret }
	home, _ := run(t, c)
	at, err := url.Parse(home)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, "http://127.0.0.1:"+at.Port(), 1400, 900)
	secret := <-first
	b.visit("/login?token=" + secret)
	b.waitForText("Log in", "12 hours without use")
	b.checkAccessibility("the login, filled in")
	b.screenshot("login-filled-in")
	if cookies := evaluate[string](b, `document.cookie`); cookies != "" || evaluate[string](b, `document.querySelector("#token").value`) != secret {
		t.Errorf("the form is not filled in, or the address sets a cookie: %q", cookies)
	}
	b.visit("/jobs")
	b.waitForScript(`location.pathname === "/login"`)
	b.visit("/login?token=" + secret)
	b.click(".login button")
	b.waitForText("All systems of deadman operational", "Logged in as")
	b.waitForScript(`!location.href.includes("token")`)
	b.checkAccessibility("logged in")
	b.screenshot("logged-in")
	b.resize(400, 800)
	b.setDarkMode(true)
	b.screenshot("logged-in-narrow")
	b.setDarkMode(false)
	b.resize(1400, 900)
	other := b.logInElsewhere(secret)
	b.click("footer .self a")
	b.waitForText("Sessions", "this browser", "Firefox/140.0 on a telephone", "A session ends 12 hours after its last use")
	b.checkAccessibility("sessions")
	b.screenshot("sessions")
	b.resize(400, 800)
	b.setDarkMode(true)
	b.screenshot("sessions-narrow")
	b.checkAccessibility("sessions, narrow")
	b.click(`tr:has([title^="Firefox"]) button`)
	b.waitForText("1 session was ended.")
	b.waitForScript(`!document.body.innerText.includes("on a telephone")`)
	if status := other(); status != http.StatusUnauthorized {
		t.Errorf("the session that was ended opens the API: %d", status)
	}
	b.do(chromedp.ScrollIntoView(chromedp.CSS("footer .self")))
	b.click("footer .self button")
	b.waitForText("Log in")
	b.visit("/jobs")
	b.waitForScript(`location.pathname === "/login"`)
}

// logInElsewhere logs in another browser, and returns a function that reads the status of its session.
func (b *tab) logInElsewhere(secret string) func() int {
	b.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, path, body string, cookies ...*http.Cookie) (status int, set []*http.Cookie) {
		r, err := http.NewRequestWithContext(b.Context(), method, b.home+path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("User-Agent", "Firefox/140.0 on a telephone")
		for _, c := range cookies {
			r.AddCookie(c)
		}
		answer, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode, answer.Cookies()
	}
	status, session := send("POST", "/login", url.Values{"token": {secret}}.Encode())
	if len(session) != 1 {
		b.Fatalf("the login comes to %d", status)
	}
	return func() int {
		status, _ := send("GET", "/api/v1/jobs", "", session...)
		return status
	}
}
