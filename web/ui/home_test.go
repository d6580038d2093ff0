package ui_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/store"
)

// TestOverviewShowsPausesAndGaps checks that the first line of the overview names paused rules and the last monitoring
// gap, and omits a gap that ended more than a day ago.
func TestOverviewShowsPausesAndGaps(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	s, err := store.Open(t.Context(), store.Options{DataDir: c.DataDir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	gap := func(began time.Time) {
		for _, status := range []alerts.Status{alerts.Firing, alerts.Resolved} {
			if _, _, err := s.WriteSystemAlert(t.Context(), alerts.SystemAlert{Topic: "sweep", Step: "gap", Status: status, Severity: alerts.Warning, Since: began, Text: "not checked"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	gap(now.Add(-25 * time.Minute))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	home, _ := run(t, c)
	for _, rule := range []string{orders, paymentRule} {
		callAPI(t, home, "POST", "/rules", "application/yaml", rule, nil)
	}
	b := open(t, home, 1440, 900)
	b.visit("/")
	b.waitForText("All systems operational, no pending checks", "Monitoring gap of 25 m")
	if text := b.text(); strings.Contains(text, "paused") {
		t.Errorf("no rule is paused, and the page shows:\n%s", text)
	}
	callAPI(t, home, "POST", "/rules/order-unshipped/pause", "", "", nil)
	b.waitForText("Rule order-unshipped is paused")
	b.click(`.lead a[href="/rules/order-unshipped"]`)
	b.waitForText("paused")
	callAPI(t, home, "POST", "/rules/payment-missing/pause", "", "", nil)
	b.visit("/")
	b.waitForText("2 rules are paused")
	if tone := evaluate[string](b, `document.querySelector(".lead").className`); tone != "lead warning" {
		t.Errorf("the headline is %q", tone)
	}
	b.checkAccessibility("the overview with paused rules and a gap")
	b.screenshot("now-paused")
	b.resize(400, 800)
	b.screenshot("now-paused-narrow")
	b.click(`.lead a[href="/rules?state=paused"]`)
	b.waitForText("order-unshipped", "payment-missing")
}

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
