package ui_test

import (
	"strings"
	"testing"
)

// TestOverviewShowsRefusals checks that the overview counts dead letters, in total and by rule, with links to them.
func TestOverviewShowsRefusals(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, paymentRule)
	b := open(t, home, 1400, 900)
	b.visit("/")
	b.waitForText("order-unshipped")
	if text := b.text(); strings.Contains(text, "dead letter") && !strings.Contains(text, "Dead letters") || strings.Contains(text, "refused") {
		t.Errorf("nothing was refused, and it says:\n%s", text)
	}
	for range 3 {
		send(t, home, "orders.created", `{"number": 1}`)
	}
	b.waitForText("3 dead letters", "3 refused") // live
	b.checkAccessibility("now, with dead letters")
	b.screenshot("now-refused")
	b.click(`#rule-order-unshipped a[href^="/dead-letters"]`)
	b.waitForText("Dead letters newest first")
	b.visit("/")
	b.click(`.lead a[href="/dead-letters"]`)
	b.waitForText("3 in total")
}

// TestLongKeysLeaveRoom checks that a long key leaves space for the other columns and is available in full as a
// tooltip. The alert of an entity links to it on a narrow screen, too.
func TestLongKeysLeaveRoom(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	long := strings.Repeat("key-", 128)
	publishEvents(t, home, "orders.created", "1", long)
	waitForOpenAlerts(t, home, 2)
	b := open(t, home, 1400, 900)
	for _, width := range []int64{1400, 400} {
		b.resize(width, 900)
		for _, path := range []string{"/", "/alerts"} {
			b.visit(path)
			b.waitForText("is not shipped")
			tallest := evaluate[float64](b, `Math.max(...[...document.querySelectorAll("tbody tr")].map((row) => row.offsetHeight / parseFloat(getComputedStyle(row).lineHeight)))`)
			if tallest > map[int64]float64{1400: 4, 400: 9}[width] {
				t.Errorf("%s, %d px wide, has a row of %.1f lines", path, width, tallest)
			}
			if n := evaluate[int](b, `[...document.querySelectorAll("tr[id^=alert-] a.key")].filter((a) => a.offsetHeight > 0 && a.title === a.textContent).length`); n != 2 {
				t.Errorf("%s, %d px wide: %d of 2 alerts lead to their entity", path, width, n)
			}
			b.checkAccessibility(path + " with a long key")
			b.screenshot("long" + strings.ReplaceAll(path, "/", "-") + map[int64]string{1400: "", 400: "-narrow"}[width])
		}
	}
	b.click(`tr[id^=alert-] a.narrow.key[title="order 1"]`)
	b.waitForText("order 1", "first check")
}
