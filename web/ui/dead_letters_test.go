package ui_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

// TestDeadLetters checks that dead letters can be read, retried and dropped: a single one, several, and all of a
// reason.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	for i := range 4 {
		send(t, home, "orders.created", fmt.Sprintf(`{"number": %d}`, i))
	}
	send(t, home, "orders.created", `{"id": {"`+hostileKey[:8]+`": "\u202e"}}`)
	callAPI(t, home, "POST", "/events/orders.created", "application/octet-stream", "\x00\x01\xff deadman", nil)
	b := open(t, home, 1400, 900)
	b.visit("/dead-letters")
	b.waitForText("6 in total", "missing value")
	b.checkAccessibility("dead letters")
	b.screenshot("letters")
	var counted web.DeadLetterReasons
	callAPI(t, home, "GET", "/dead-letters/reasons", "", "", &counted)
	missing, binary := counted.Items[0], counted.Items[1]

	// One: a binary body is shown as a hex dump; it is refused again and stays.
	b.visit(fmt.Sprintf("/dead-letters/%d", binary.NewestID))
	b.waitForText("binary, shown as hex", "00000000  00 01 ff 20 64 65 61 64", "|... deadman|")
	b.checkAccessibility("a dead letter")
	b.screenshot("letter")
	b.click("button[value=retry]")
	b.waitForText("Some actions failed", "1 dead letter could not be processed", "failed again")
	b.checkAccessibility("not all was done")
	b.screenshot("doing")

	// Several: a confirmation is required, and the link back changes nothing.
	b.visit("/dead-letters?" + url.Values{"reason": {missing.Reason}}.Encode())
	for _, id := range []int64{missing.NewestID, missing.NewestID - 1} {
		b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`input[aria-label="Select dead letter %d"]`, id))))
	}
	b.click(".actions button[value=drop]")
	b.waitForText("Drop 2 dead letters?")
	b.checkAccessibility("sure")
	b.click("form a.button")
	b.waitForText("4 in total")
	for _, id := range []int64{missing.NewestID, missing.NewestID - 1} {
		b.do(chromedp.Click(chromedp.CSS(fmt.Sprintf(`input[aria-label="Select dead letter %d"]`, id))))
	}
	b.click(".actions button[value=drop]")
	b.click("button.grave")
	b.waitForText("2 dead letters were dropped.", "2 in total")

	// All of a reason: the changed rule accepts them.
	callAPI(t, home, "PUT", "/rules/order-unshipped", "application/yaml", strings.Replace(orders, "created, key: event.id", "created, key: event.number", 1), nil)
	b.visit("/dead-letters")
	b.click(`button[aria-label="Retry all 2 of this reason"]`)
	b.waitForText("Retry all 2 dead letters of rule order-unshipped with the reason")
	b.click("button.main")
	b.waitForText("2 dead letters were processed.")
	var jobs web.Page[web.Job]
	if callAPI(t, home, "GET", "/jobs", "", "", &jobs); len(jobs.Items) != 2 {
		t.Errorf("%d jobs came of two letters", len(jobs.Items))
	}

	// All dead letters.
	b.visit("/dead-letters")
	for range counted.Items[1:] {
		b.click(`td button[value=drop]`)
		b.waitForText("Drop 1 dead letter")
		b.click("button.grave")
		b.waitForText("1 dead letter was dropped.")
	}
	b.waitForText("No dead letters.")
}
