package ui_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"deadman/internal/longtest"
	"deadman/web"
)

// TestPagesOfBacklog checks the overview and the list of jobs of a node with 10,000 pending jobs: open alerts, job
// counts of rules, and filtered jobs.
func TestPagesOfBacklog(t *testing.T) {
	longtest.Only(t, "it has 10,000 jobs")
	t.Parallel()
	const jobs = 10_000
	c := config(t.TempDir())
	home, stop := run(t, c)
	for _, text := range backlogRules {
		callAPI(t, home, "POST", "/rules", "application/yaml", text, nil)
	}
	stop()
	fillDatabase(t, c, jobs)
	home, _ = run(t, c)
	var raised web.Page[web.Alert]
	callAPI(t, home, "GET", "/alerts?open=true&severity=critical&limit=500", "", "", &raised)
	known := raised.Items[0]
	callAPI(t, home, "POST", "/alerts/"+known.ID.String()+"/ack", "application/json", `{"note": "I am on it"}`, nil)

	send(t, home, "orders.created", `{"id": "fresh"}`)
	b := open(t, home, 1400, 900)
	b.visit("/")
	b.waitForText("All systems of deadman operational", "Ingest up to date", "10,004 pending checks", "7,501", "0 of 2")
	severities := evaluate[[]string](b, `[...document.querySelectorAll("#alerts + .card tbody tr")].map(row => row.cells[0].innerText.trim())`)
	if len(severities) == 0 || slices.ContainsFunc(severities, func(s string) bool { return s != "critical" }) {
		t.Errorf("the gravest are not first: %q", severities)
	}
	b.screenshot("backlog-now")
	b.checkAccessibility("backlog-now")

	for _, at := range []struct {
		path string
		rows int // on the first page
		has  string
	}{
		{"/jobs", 50, commonRule},
		{"/jobs?rule=" + rareRule, 11, rareRule},
		{"/jobs?entity=payment", 50, otherRule},
		{"/jobs?key=0007919", 1, "0007919"},
		{"/jobs?key=00*", 50, "order 00"},
		{"/jobs?key=000791*", 1, "0007919"},
		{"/jobs?due=now", 0, "No pending checks match these filters"},
		{"/jobs?due=hour&rule=" + lateRule, 0, "No pending checks match these filters"},
		{"/jobs?from=2099-01-01T00:00", 0, "No pending checks match these filters"},
		{"/jobs?to=2099-01-01T00:00", 50, commonRule},
	} {
		b.visit(at.path)
		b.waitForText(at.has)
		if rows := evaluate[int](b, `document.querySelectorAll("table.jobs tbody tr").length`); rows != at.rows {
			t.Errorf("%s has %d rows, want %d:\n%s", at.path, rows, at.rows, b.text())
		}
	}
	b.visit("/jobs?key=0*")
	b.screenshot("backlog-jobs")
	b.checkAccessibility("backlog-jobs")
	seen := make(map[string]bool)
	for range 3 {
		for _, id := range evaluate[[]string](b, `[...document.querySelectorAll("table.jobs tbody tr")].map(row => row.id)`) {
			if seen[id] || !strings.Contains(id, "/0") {
				t.Errorf("%s is on two pages, or not as sorted", id)
			}
			seen[id] = true
		}
		b.visit(evaluate[string](b, `new URL(document.querySelector("[rel=next]").href).pathname + new URL(document.querySelector("[rel=next]").href).search`))
	}
	for _, width := range []int64{400, 1600} {
		w := open(t, home, width, 900)
		for _, path := range []string{"/", "/jobs"} {
			w.visit(path)
			w.waitForText("order")
			w.setDarkMode(width == 1600)
			w.screenshot(fmt.Sprintf("backlog%s-%d", strings.ReplaceAll(path, "/", "-"), width))
			if wide := evaluate[int](w, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
				t.Errorf("%s is %d px too wide for %d", path, wide, width)
			}
		}
	}
}

// TestLiveUpdatesKeepSelectedJobs checks that live updates keep the chosen jobs and the focus, and do not shift the page.
func TestLiveUpdatesKeepSelectedJobs(t *testing.T) {
	t.Parallel()
	home := serve(t, strings.ReplaceAll(orders, "after: 1s", "after: 1h"))
	for _, id := range []string{"first", "second"} {
		send(t, home, "orders.created", `{"id": "`+id+`", "total": 1}`)
	}
	b := open(t, home, 1400, 900)
	b.visit("/jobs")
	b.waitForText("order first", "order second")
	const box = `document.querySelector('[value="order-unshipped/second"]')`
	const columns = `[...document.querySelectorAll("th")].map(th => Math.round(th.getBoundingClientRect().left)).join()`
	evaluate[bool](b, box+`.click(), `+box+`.focus(), true`)
	before := evaluate[string](b, columns)
	send(t, home, "orders.created", `{"id": "a-third-with-quite-a-long-key-that-would-push-what-stands-beside-it", "total": 1}`)
	b.waitForText("order a-third")
	if !evaluate[bool](b, box+`.checked`) {
		t.Error("the box is not checked any more")
	}
	if !evaluate[bool](b, `document.activeElement === `+box) {
		t.Error("the box has lost the focus")
	}
	if after := evaluate[string](b, columns); after != before {
		t.Errorf("columns stand at %s, before at %s", after, before)
	}
}

// TestJobsInvalidTimeFilter checks that an invalid filter is reported and lists nothing.
func TestJobsInvalidTimeFilter(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	answer, err := http.Get(home + "/jobs?from=tomorrow")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(body), "tomorrow is not a UTC time such as 2026-01-31T15:04") {
		t.Errorf("%v: %s", err, body)
	}
}
