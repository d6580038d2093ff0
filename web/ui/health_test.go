package ui_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestHealth checks that the health page has a summary and its details, and that opened details stay open during
// updates.
func TestHealth(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	send(t, home, "orders.created", `{"id": "1", "total": 2}`)
	b := open(t, home, 1400, 900)
	b.visit("/health")
	b.waitForText("All systems of deadman operational: 1 node, 1 stream up to date, no overdue checks", "DEADMAN_EVENTS", "up to date", "order-unshipped", "0–15", "No monitoring gaps")
	b.checkAccessibility("health")
	b.click("#condition-sweep a")
	b.waitForText("No pending checks match these filters.")
	b.visit("/health")
	b.do(chromedp.Click(chromedp.CSS("#load-table summary")))
	b.waitForText("planned", "deadman job slots")
	send(t, home, "orders.created", `{"id": "2", "total": 2}`)
	b.waitForText("2 planned")
	if !evaluate[bool](b, `document.querySelector("#load-table").open`) {
		t.Error("the table was closed by what came in")
	}
	b.checkAccessibility("health, with the table")
	b.screenshot("health-table")
}
