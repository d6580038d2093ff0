package ui_test

import (
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/checks"
	"deadman/web"
)

// waitForEnded waits until n ended jobs are counted.
func waitForEnded(t *testing.T, home string, n int64) {
	t.Helper()
	for deadline := time.Now().Add(within); ; pausePoll(t.Context()) {
		var o web.Outcomes
		callAPI(t, home, "GET", "/history/outcomes", "", "", &o)
		sum := int64(0)
		for _, item := range o.Items {
			for _, jobs := range item.Outcomes {
				sum += jobs
			}
		}
		if sum == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs are counted as ended, want %d", sum, n)
		}
	}
}

const oneStepRule = `name: once
entity: order
trigger: {event: orders.once, key: event.id}
escalate: [{after: 1s, step: only, severity: warning}]
slot: 1s
`

// TestHistory checks that the history shows outcomes with bars linked to their lists, the filters, and the slowest
// checks.
func TestHistory(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, oneStepRule)
	publishEvents(t, home, "orders.created", "1", "2", hostileKey)
	publishEvents(t, home, "orders.once", "late")
	waitForOpenAlerts(t, home, 3)
	publishEvents(t, home, "orders.shipped", "1")
	callAPI(t, home, "DELETE", "/jobs/order-unshipped?"+url.Values{"key": {hostileKey}}.Encode(), "", "", nil)
	waitForEnded(t, home, 3)
	b := open(t, home, 1400, 900)
	b.visit("/history")
	b.waitForText("3 jobs ended in the last 24 hours", "resolved late 1", "cancelled 1", "exhausted 1", "Slowest checks", "resolved", "⟨U+202E⟩")
	b.checkAccessibility("history")
	b.screenshot("history")
	if offered := evaluate[[]checks.Outcome](b, `[...document.querySelectorAll("#outcomes option")].map(o => o.value)`); !slices.Equal(offered, checks.Outcomes()) {
		t.Errorf("the filter offers %v, want %v", offered, checks.Outcomes())
	}

	// It is updated live, and opened details stay open.
	evaluate[any](b, `document.querySelector("details.table").open = true; 0`)
	publishEvents(t, home, "orders.shipped", "2")
	b.waitForText("4 jobs ended", "resolved late 2")
	if !evaluate[bool](b, `document.querySelector("details.table").open`) {
		t.Error("the table was closed under the eyes of who reads it")
	}
	b.checkAccessibility("history with its table")

	// A bar links to the list of its bucket.
	b.click(`details.table td a`)
	b.waitForText("Ended since", " before ", "cancelled", "exhausted")
	b.visit("/history?outcome=resolved&key=1")
	b.waitForText("order 1", "resolved")
	if rows := evaluate[int](b, `document.querySelectorAll("#list + .fold + .card tbody tr").length`); rows != 1 {
		t.Errorf("%d rows, want 1", rows)
	}
	b.visit("/history?outcome=expired")
	b.waitForText("No ended jobs match these filters in this period.")
	b.click(".empty a")
	b.waitForText("No ended jobs match these filters in this period.")
	b.click(".empty a")
	b.waitForText("No ended jobs match these filters. Clear filters")

	b.setDarkMode(true)
	b.visit("/history?window=month&rule=once")
	b.waitForText("1 job of rule once ended in the last 30 days")
	b.screenshot("history-dark")
	b.checkAccessibility("history by days, in the dark")
	if text := b.text(); strings.Contains(text, "order-unshipped") {
		t.Errorf("another rule's is there:\n%s", text)
	}
	narrow := open(t, home, 400, 800)
	narrow.visit("/history")
	narrow.do(chromedp.Click(chromedp.CSS(".fold summary")))
	narrow.waitForText("jobs ended")
	narrow.screenshot("history-narrow")
	if wide := evaluate[int](narrow, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		t.Errorf("it is %d px too wide for 400 px", wide)
	}
}

// TestHistoryFilter checks that the chart names its filter, and that its links keep the filter.
func TestHistoryFilter(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, oneStepRule)
	publishEvents(t, home, "orders.created", "1", "2")
	publishEvents(t, home, "orders.once", "late")
	waitForOpenAlerts(t, home, 2)
	publishEvents(t, home, "orders.shipped", "1", "2")
	waitForEnded(t, home, 3)
	for _, c := range []struct{ query, wantText string }{
		{"", "3 jobs ended in the last 24 hours</b>"},
		{"key=1", "3 jobs ended in the last 24 hours, all keys</b>"},
		{"outcome=resolved", "2 jobs ended as resolved in the last 24 hours</b>"},
		{"outcome=rule_deleted", "0 jobs ended as rule deleted in the last 24 hours</b>"},
		{"rule=once&entity=order&window=week&key=%E2%80%AEx", "1 job of rule once of entity order ended in the last 7 days, all keys</b>"},
		{"entity=%E2%80%AEx", "0 jobs of entity ⟨U&#43;202E⟩x ended in the last 24 hours</b>"},
	} {
		if _, content := requestPage(t, "GET", home+"/history?"+c.query, ""); !strings.Contains(content, c.wantText) {
			t.Errorf("%s: not %q: %s", c.query, c.wantText, content)
		}
	}
	_, content := requestPage(t, "GET", home+"/history?key=1&outcome=resolved&within=7d&rule=order-unshipped&entity=order", "")
	_, chart, _ := strings.Cut(content, "<svg")
	chart, _, _ = strings.Cut(chart, "</svg>")
	bars := strings.Split(chart, `<a href="`)[1:]
	if len(bars) != 24 {
		t.Fatalf("%d bars: %s", len(bars), chart)
	}
	for _, bar := range bars {
		to, _, _ := strings.Cut(bar, `"`)
		at, err := url.Parse(html.UnescapeString(to))
		if err != nil {
			t.Fatal(err)
		}
		q := at.Query()
		if q.Get("key") != "1" || q.Get("outcome") != "resolved" || q.Get("rule") != "order-unshipped" || q.Get("entity") != "order" || q.Has("within") || q.Get("ended_after") == "" {
			t.Fatalf("a bar leads to %s", to)
		}
	}
}
