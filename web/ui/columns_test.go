package ui_test

import (
	"fmt"
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
