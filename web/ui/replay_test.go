package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// replayedRule is late after a second.
const replayedRule = `name: parcel-unshipped
entity: parcel
trigger: {event: parcels.packed, key: event.id}
resolve: {event: parcels.shipped, key: event.id}
slot: 1s
escalate: [{after: 1s, step: late, severity: critical, text: "parcel {{key}} is late"}, {after: 3h, step: later}]
`

// TestReplayInEditor checks that the editor replays its text, and shows the alerts and the charts, at all widths.
func TestReplayInEditor(t *testing.T) {
	t.Parallel()
	home := serve(t, replayedRule)
	for i := range 12 {
		send(t, home, "parcels.packed", fmt.Sprintf(`{"id": "%d"}`, i))
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(3 * time.Second))) // the steps are over
	for i := range 4 {
		send(t, home, "parcels.shipped", fmt.Sprintf(`{"id": "%d"}`, i))
	}
	for _, width := range []int64{400, 1440} {
		for _, dark := range []bool{false, true} {
			b := open(t, home, width, 900)
			b.setDarkMode(dark)
			b.visit("/rules/parcel-unshipped/edit")
			b.waitForText("Outcome: exhausted")
			b.do(chromedp.Click(chromedp.CSS(".replay [hx-post='/try-replay']")))
			b.waitForText("12 alerts", "16 events", "the text above", "4 of 12 jobs were resolved, 0 of them before the first step", "parcel 11 is late", "late 12")
			if n := evaluate[int](b, `document.querySelectorAll(".replay svg rect.critical").length`); n == 0 {
				t.Error("no chart of the alerts")
			}
			if until := evaluate[string](b, `document.querySelectorAll(".replay .notice time")[1].textContent`); !strings.Contains(until, time.Now().Format("2006")) {
				t.Errorf("the end %q has no date", until)
			}
			if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
				t.Errorf("at %d px the page is %d px too wide", width, wide)
			}
			b.checkAccessibility(fmt.Sprintf("a replay at %d px, dark %v", width, dark))
			evaluate[any](b, `document.querySelector(".replay").scrollIntoView(); 0`)
			b.screenshot(fmt.Sprintf("replay-%d-%v", width, dark))
		}
	}
}
