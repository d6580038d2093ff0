package ui_test

import (
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
)

// Who is logged in is said at the foot of each page, and logs out there.
func TestLoggedIn(t *testing.T) {
	c := config(t.TempDir())
	c.HTTPAddr = "0.0.0.0:0" // beyond loopback it takes tokens, and makes the first
	first := make(chan string, 1)
	c.FirstToken = func(secret, _ string) { first <- secret }
	home, _ := run(t, c)
	at, err := url.Parse(home)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, "http://127.0.0.1:"+at.Port(), 1400, 900)
	b.visit("/login?token=" + <-first)
	b.shows("deadman is fine", "Logged in as")
	b.accessible("logged in")
	b.shoot("logged-in")
	b.resize(400, 800)
	b.dark(true)
	b.shoot("logged-in-narrow")
	b.do(chromedp.ScrollIntoView(chromedp.CSS("footer .self")))
	b.click("footer .self button")
	b.shows("Log in")
	b.visit("/jobs")
	b.finds(`location.pathname === "/login"`)
}
