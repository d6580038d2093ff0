package ui_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestSearch checks that an id from a ticket leads to its page.
func TestSearch(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, strings.NewReplacer("order-unshipped", "order-unpaid", "entity: order", "entity: payment").Replace(orders))
	send(t, home, "orders.created", `{"id": "1234", "total": 1}`)
	b := open(t, home, 1200, 900)
	b.visit("/alerts")
	b.waitForText("order 1234 (1) is not shipped")
	alert := evaluate[string](b, `new URL(document.querySelector("main a[href^=\"/alerts/0\"]").href).pathname.split("/").pop()`)
	for query, at := range map[string]string{
		"order 1234":           "/entities/order",
		"order-unshipped/1234": "/entities/order",
		"order-unp":            "/rules/order-unpaid",
		alert:                  "/alerts/" + alert,
		"1234":                 "/find",
		"order-un":             "/find",
		"unknown":              "/find",
	} {
		b.visit("/")
		evaluate[any](b, `document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true})); 0`)
		b.waitForNavigation(chromedp.KeyEvent(query + "\r"))
		if got := evaluate[string](b, "location.pathname"); got != at {
			t.Errorf("%s leads to %s, want %s", query, got, at)
		}
	}
	b.visit("/find?q=1234")
	b.waitForText("order", "payment")
	b.visit("/find?q=unknown")
	b.waitForText("No rule, alert or key matches unknown")
	b.checkAccessibility("find")
}

// TestSearchByPrefixOfKey checks that the beginning of the key of a pending job finds it, and others, up to a limit.
func TestSearchByPrefixOfKey(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	for i := range 30 {
		send(t, home, "orders.created", fmt.Sprintf(`{"id": "WEB-%02d", "total": 1}`, i))
	}
	send(t, home, "orders.created", `{"id": "WEB-0", "total": 1}`)
	send(t, home, "orders.created", `{"id": "100%_", "total": 1}`)
	b := open(t, home, 1200, 900)
	b.visit("/jobs?key=100*")
	b.waitForText("order 100%_")
	links := func(query string) []string {
		t.Helper()
		b.visit("/find?q=" + url.QueryEscape(query))
		return evaluate[[]string](b, `[...document.querySelectorAll("main .found a")].map(a => a.innerText)`)
	}
	if got := links("WEB-1"); len(got) != 10 || got[0] != "WEB-10" || got[9] != "WEB-19" {
		t.Errorf("WEB-1 finds %q", got)
	}
	if got := links("order WEB-1"); len(got) != 10 || got[0] != "WEB-10" {
		t.Errorf("order WEB-1 finds %q", got)
	}
	if got := links("WEB-"); len(got) != 20 || got[0] != "WEB-0" || got[19] != "WEB-18" {
		t.Errorf("WEB- finds %q", got)
	}
	b.waitForText("20 of 31 keys.")
	b.screenshot("find-prefix")
	b.checkAccessibility("find-prefix")
	b.click(`main p a[href^="/jobs"]`)
	b.waitForText("order WEB-00")
	for query, key := range map[string]string{"100": "100%_", "WEB-0": "WEB-0", "order WEB-05": "WEB-05"} { // a whole key hides longer ones
		b.visit("/find?q=" + url.QueryEscape(query))
		if got := evaluate[string](b, `location.pathname + " " + new URLSearchParams(location.search).get("key")`); got != "/entities/order "+key {
			t.Errorf("%s leads to %s", query, got)
		}
	}
	for _, query := range []string{"eb-1", "%", "WEB_1", "payment WEB-1"} {
		if got := links(query); len(got) > 0 {
			t.Errorf("%s finds %q", query, got)
		}
	}
}

// TestPauseUpdates checks that live updates can be paused, and that times use the chosen zone.
func TestPauseUpdates(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	b := open(t, home, 1200, 900)
	b.visit("/jobs")
	evaluate[any](b, `window.came = 0; document.addEventListener("htmx:sse:before:message", () => { window.came++ }); 0`)
	came := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(within); evaluate[int](b, "window.came") < n; pausePoll(b.ctx) {
			if time.Now().After(deadline) {
				t.Fatal("nothing comes")
			}
		}
	}
	// The first content may be older than the subscription, so the test waits for a new event.
	send(t, home, "orders.created", `{"id": "first", "total": 1}`)
	b.waitForText("order first")
	b.do(chromedp.Click(chromedp.CSS("[data-live]")))
	b.waitForText("Resume updates")
	before := evaluate[int](b, "window.came")
	send(t, home, "orders.created", `{"id": "second", "total": 1}`)
	came(before + 1)
	if strings.Contains(b.text(), "order second") {
		t.Error("it does not hold still")
	}
	b.click("[data-live]") // it reloads the page: a change of a setting before its script runs is lost
	b.waitForText("order second")

	evaluate[any](b, `const s = document.querySelector("[data-times]"); s.value = "UTC"; s.dispatchEvent(new Event("change", {bubbles: true})); 0`)
	b.waitForText(" UTC")
	b.visit("/jobs")
	b.waitForText(" UTC") // it stays chosen
}
