package ui_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/internal/store/storetest"
	"deadman/web"
)

// endedJobs are a thousand jobs of the last ten days: of each hundred, 85 took up to 40 minutes, 10 were late and 5 were
// never resolved.
const endedJobs = `INSERT INTO history (shard, key, rule_id, id, version, outcome, ended_at, created_at, since_at, first_check_at, next_check_at, check_count, step, checks, check_total, check_slowest)
SELECT 0, n, r.id, n, 1, CASE WHEN n % 100 < 95 THEN 'resolved' ELSE 'exhausted' END, ended, ended, ended - took, ended, ended, 0, CASE WHEN n % 100 < 85 THEN 0 ELSE 1 END, 0, 0, 0
FROM rule r, (SELECT n, now() - interval '2h' - n * interval '14m' AS ended, CASE WHEN n % 100 < 85 THEN n % 41 * interval '1m' ELSE interval '3h' END AS took FROM generate_series(1, 1000) AS n) AS e
WHERE r.name = 'order-unshipped'`

// TestRuleStatistics checks that the page of a rule shows the jobs resolved in time, late and never in each window, with the
// time that they took.
func TestRuleStatistics(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	home, stop := run(t, onPostgres(t, dsn))
	callAPI(t, home, "POST", "/rules", "application/yaml", orders, nil)
	callAPI(t, home, "POST", "/rules", "application/yaml", oneStepRule, nil)
	stop()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, text := range []string{endedJobs, `DELETE FROM setting WHERE name = 'outcomes_through'`} { // as after an upgrade
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	home, _ = run(t, onPostgres(t, dsn)) // counts the jobs in its first round of maintenance
	b := open(t, home, 1400, 900)
	b.visit("/rules/once")
	b.waitForText("In time or late", "counted")
	var month web.RuleStatistics
	for deadline := time.Now().Add(within); month.InTime+month.Late+month.Never != 1000; pausePoll(t.Context()) {
		callAPI(t, home, "GET", "/rules/order-unshipped/statistics?window=month", "", "", &month)
		if time.Now().After(deadline) {
			t.Fatalf("counted %+v", month)
		}
	}
	if month.InTime != 850 || month.Late != 100 || month.Never != 50 {
		t.Errorf("a month has %+v", month)
	}
	b.visit("/history?entity=nothing") // no zeros in place of jobs that are not counted yet
	b.waitForText("Later ones are not counted yet: the next count is at about")
	if text := b.text(); strings.Contains(text, "in time 0") || !regexp.MustCompile(`at about (\d{4}-\d\d-\d\d )?\d\d:05 UTC`).MatchString(text) {
		t.Errorf("nothing is counted: %s", text)
	}
	b.screenshot("history-uncounted")
	for _, width := range []int64{1400, 400} {
		for _, dark := range []bool{false, true} {
			b := open(t, home, width, 900)
			b.setDarkMode(dark)
			b.visit("/rules/order-unshipped?window=month#in-time")
			b.waitForText("in time 850", "late 100", "never 50", "time to resolve p50 22 m, p95 3 h", "unknown before", "resolved after p50 22 m")
			name := map[bool]string{false: "light", true: "dark"}[dark] + map[int64]string{1400: "", 400: "-narrow"}[width]
			b.screenshot("statistics-" + name)
			b.visit("/history?entity=order&window=month#in-time")
			b.waitForText("In time or late", "in time 850 (85.00 %)", "late 100", "never 50", "p50 22 m")
			b.screenshot("history-in-time-" + name)
			b.checkAccessibility("history with jobs in time")
			b.visit("/rules/order-unshipped?window=month#in-time")
			b.checkAccessibility("statistics, " + name)
			if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
				t.Errorf("%s: it is %d px too wide", name, wide)
			}
		}
	}
	for _, dark := range []bool{false, true} {
		b.setDarkMode(dark)
		b.visit("/rules")
		b.waitForText("Last 24 hours", "order-unshipped")
		b.screenshot(map[bool]string{false: "sparkline-light", true: "sparkline-dark"}[dark])
		b.checkAccessibility("rules with a sparkline")
	}
	if label := evaluate[string](b, `document.querySelector(".spark svg").getAttribute("aria-label")`); !strings.HasPrefix(label, "Jobs of the last 24 hours: in time ") {
		t.Errorf("the sparkline is labelled %q", label)
	}
	if kinds := evaluate[int](b, `new Set([...document.querySelectorAll(".spark rect")].map(r => r.className.baseVal)).size`); kinds < 2 {
		t.Errorf("the sparkline has %d kinds of outcomes", kinds)
	}
	b.visit("/rules/order-unshipped?window=week")
	b.waitForText("resolved after p50")
	if bars := evaluate[int](b, `document.querySelectorAll(".ends svg a").length`); bars != 7 {
		t.Errorf("a week has %d bars", bars)
	}
	b.click(`nav[aria-label=Window] a`)
	b.waitForText("24 hours")
	if bars := evaluate[int](b, `document.querySelectorAll(".ends svg a").length`); bars != 24 {
		t.Errorf("a day has %d bars", bars)
	}
	evaluate[any](b, `document.querySelector("details.table").open = true; 0`)
	b.click("details.table td a")
	b.waitForText("Ended since", " before ", "resolved")
	checkSharedAxis(t, b)
}

// checkSharedAxis checks that both charts of the history have the same buckets and marks in each window, and that late jobs
// have one colour in both.
func checkSharedAxis(t *testing.T, b *tab) {
	t.Helper()
	for window, buckets := range map[string]int{"day": 24, "week": 7, "month": 30} {
		b.visit("/history?window=" + window)
		b.waitForText("In time or late", "resolved late", "Outcomes")
		axes := evaluate[[]string](b, `[...document.querySelectorAll(".ends svg")].map(s =>
			[...s.querySelectorAll("a")].map(a => a.querySelector("rect").getAttribute("x") + " " + a.getAttribute("aria-label").split(": ")[0]).join("; ") +
			" | " + [...s.querySelectorAll("text:not(.most)")].map(m => m.textContent).join(" "))`)
		if len(axes) != 2 || axes[0] != axes[1] || strings.Count(axes[0], ";") != buckets-1 {
			t.Errorf("%s: the axes of the charts are %s", window, strings.Join(axes, "\n"))
		}
		fills := evaluate[[]string](b, `[...new Set([...document.querySelectorAll("svg")].flatMap(s => [...s.querySelectorAll("a[aria-label*='late: '] rect:not(.room)")]).map(r => getComputedStyle(r).fill))]`)
		late := evaluate[[]string](b, `[...new Set([...document.querySelectorAll(".count")].filter(c => c.textContent.includes("late")).map(c => getComputedStyle(c.querySelector(".swatch")).backgroundColor))]`)
		if len(late) != 1 || !slices.Contains(fills, late[0]) {
			t.Errorf("%s: late jobs have the colours %v in the legends, and the bars %v", window, late, fills)
		}
	}
	b.screenshot("history-axis")
}
