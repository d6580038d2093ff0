package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"deadman/internal/longtest"
	"deadman/web"
)

// TestColumnsHaveRoom checks that at any width each status fits its column, and that the reason of a dead letter does
// not wrap after every letter.
func TestColumnsHaveRoom(t *testing.T) {
	longtest.Only(t, "it measures the layout")
	t.Parallel()
	home := serve(t, orders, paymentRule)
	publishEvents(t, home, "payments.asked", "1", "2")
	for _, a := range waitForOpenAlerts(t, home, 2)[:1] {
		callAPI(t, home, "POST", "/alerts/"+a.ID.String()+"/ack", "application/json", `{"for": "1h"}`, nil)
	}
	for range 5 {
		send(t, home, "orders.created", `{"no": "id"}`)
	}
	var letters web.Page[web.DeadLetter]
	for deadline := time.Now().Add(within); len(letters.Items) < 5; pausePoll(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatalf("%d events were refused, want 5", len(letters.Items))
		}
		callAPI(t, home, "GET", "/dead-letters", "", "", &letters)
	}
	for _, width := range []int64{400, 500, 1400} {
		b := open(t, home, width, 900)
		b.setDarkMode(width == 400)
		b.visit("/alerts")
		// The longest status, otherwise shown only during an outage.
		over := evaluate[int](b, `(() => { const all = [...document.querySelectorAll("td > .pill")];
			for (const pill of all) pill.textContent = "undetermined";
			return all.filter((pill) => pill.getBoundingClientRect().right > pill.parentElement.getBoundingClientRect().right).length; })()`)
		if over > 0 || evaluate[int](b, `document.querySelectorAll("td > .pill").length`) < 2 {
			t.Errorf("%d of two states lie over what is beside them at %d px", over, width)
		}
		b.screenshot(fmt.Sprint("columns-alerts-", width))
		b.visit("/jobs")
		over = evaluate[int](b, `(() => { const all = [...document.querySelectorAll("td .pill.open, td .pill.waiting, td .pill.due")].filter((pill) => pill.offsetWidth);
			for (const pill of all) pill.textContent = "undetermined";
			return all.length === 0 ? -1 : all.filter((pill) => pill.getBoundingClientRect().right > pill.parentElement.getBoundingClientRect().right - 4).length; })()`)
		if over != 0 {
			t.Errorf("%d statuses of jobs are cut off at %d px", over, width)
		}
		b.screenshot(fmt.Sprint("columns-jobs-", width))
		b.visit("/dead-letters")
		if least := evaluate[float64](b, `Math.min(...[...document.querySelectorAll("td.text")].filter((e) => e.offsetWidth).map((e) => e.getBoundingClientRect().width))`); least < 100 {
			t.Errorf("a text has %.0f px at %d px", least, width)
		}
		b.screenshot(fmt.Sprint("columns-letters-", width))
		b.checkAccessibility(fmt.Sprint("letters at ", width))
	}
}

// TestAbsoluteTimesFitTheirColumns checks that no date and time lies over another column, and that a date breaks nowhere, if
// times are shown in UTC.
func TestAbsoluteTimesFitTheirColumns(t *testing.T) {
	longtest.Only(t, "it measures the layout")
	t.Parallel()
	home := serve(t, orders, "name: backup\nentity: host\ntrigger: {heartbeat: {every: 24h, keys: [crm]}}\nslot: 1s\n")
	publishEvents(t, home, "orders.created", "1", "2")
	waitForOpenAlerts(t, home, 2)
	sendPing(t, home, "backup", "crm", "/3")
	waitForOpenAlerts(t, home, 3)
	callAPI(t, home, "POST", "/mutes", "application/json", `{"match": {"key": "none"}, "for": "4h", "reason": "test"}`, nil)
	for _, width := range []int64{390, 1400} {
		b := open(t, home, width, 900)
		b.visit("/")
		evaluate[any](b, `localStorage.setItem("times", "UTC")`)
		for _, page := range []string{"/", "/jobs", "/alerts", "/mutes", "/heartbeats", "/rules/order-unshipped"} {
			b.visit(page)
			b.waitForText(" UTC")
			bad := evaluate[[]string](b, `[...document.querySelectorAll("table.fixed time")].filter((e) => e.offsetWidth).filter((e) => {
				const own = e.getBoundingClientRect(), cell = e.closest("td").getBoundingClientRect(), date = document.createRange();
				if (own.right > cell.right || own.left < cell.left) return true;
				date.setStart(e.firstChild, 0);
				date.setEnd(e.firstChild, 10);
				return date.getClientRects().length !== 1; }).map((e) => e.textContent)`)
			if times := evaluate[int](b, `[...document.querySelectorAll("table.fixed time")].filter((e) => e.offsetWidth).length`); len(bad) > 0 || times == 0 {
				t.Errorf("%s at %d px: %q of %d times do not fit", page, width, bad, times)
			}
			b.screenshot(fmt.Sprint("times-", strings.ReplaceAll(page, "/", "-"), width))
		}
	}
}
