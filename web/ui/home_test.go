package ui_test

import (
	"strings"
	"testing"
)

// TestOverviewShowsRefusals checks that the overview counts dead letters, in total and by rule, with links to them.
func TestOverviewShowsRefusals(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, payments)
	b := open(t, home, 1400, 900)
	b.visit("/")
	b.shows("order-unshipped")
	if said := b.text(); strings.Contains(said, "dead letter") && !strings.Contains(said, "Dead letters") || strings.Contains(said, "refused") {
		t.Errorf("nothing was refused, and it says:\n%s", said)
	}
	for range 3 {
		send(t, home, "orders.created", `{"number": 1}`)
	}
	b.shows("3 dead letters", "3 refused") // live
	b.accessible("now, with dead letters")
	b.shoot("now-refused")
	b.click(`#rule-order-unshipped a[href^="/dead-letters"]`)
	b.shows("Dead letters newest first")
	b.visit("/")
	b.click(`.lead a[href="/dead-letters"]`)
	b.shows("3 in total")
}

// TestLongKeysLeaveRoom checks that a long key leaves space for the other columns and is available in full as a
// tooltip. The alert of an entity links to it on a narrow screen, too.
func TestLongKeysLeaveRoom(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	long := strings.Repeat("key-", 128)
	begin(t, home, "orders.created", "1", long)
	waitOpen(t, home, 2)
	b := open(t, home, 1400, 900)
	for _, width := range []int64{1400, 400} {
		b.resize(width, 900)
		for _, path := range []string{"/", "/alerts"} {
			b.visit(path)
			b.shows("is not shipped")
			tallest := evaluate[float64](b, `Math.max(...[...document.querySelectorAll("tbody tr")].map((row) => row.offsetHeight / parseFloat(getComputedStyle(row).lineHeight)))`)
			if tallest > map[int64]float64{1400: 4, 400: 9}[width] {
				t.Errorf("%s, %d px wide, has a row of %.1f lines", path, width, tallest)
			}
			if n := evaluate[int](b, `[...document.querySelectorAll("tr[id^=alert-] a.key")].filter((a) => a.offsetHeight > 0 && a.title === a.textContent).length`); n != 2 {
				t.Errorf("%s, %d px wide: %d of 2 alerts lead to their entity", path, width, n)
			}
			b.accessible(path + " with a long key")
			b.shoot("long" + strings.ReplaceAll(path, "/", "-") + map[int64]string{1400: "", 400: "-narrow"}[width])
		}
	}
	b.click(`tr[id^=alert-] a.narrow.key[title="order 1"]`)
	b.shows("order 1", "first check")
}
