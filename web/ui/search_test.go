package ui_test

import (
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
