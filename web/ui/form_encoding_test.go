package ui_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

// oddKeyValues are keys that a form or its encoding might change.
var oddKeyValues = []string{"a\nb", "a\rb", "a\r\nb", "\n", "a\tb", " lead trail ", "100%", "%0A", "a/b//c", "a+b&c=d", "\x01\x1b", "ü👩‍👩‍👧\u202e", strings.Repeat("\n", 512)}

// TestOddKeysInForms checks that jobs with odd keys can be checked, snoozed and cancelled in a browser, alone and
// with others, and that groups named by such keys can be acknowledged.
func TestOddKeysInForms(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, paymentRule)
	// The first checks are before the end of the snooze, which lasts an hour, so it has an effect.
	later := time.Now().Add(10 * time.Minute)
	for _, key := range oddKeyValues {
		callAPI(t, home, "POST", "/jobs", "application/json", text(t, map[string]any{"rule": "order-unshipped", "key": key, "since": later}), nil)
	}
	b := open(t, home, 1400, 900)
	choose := func() {
		b.visit("/jobs?entity=order")
		b.do(chromedp.Click(chromedp.CSS("input[data-all=job]")))
	}
	choose()
	b.click("button[value=snooze]")
	b.waitForText(fmt.Sprintf("%d jobs were snoozed.", len(oddKeyValues)))
	for _, key := range oddKeyValues[:4] {
		b.visit("/entities/order?" + url.Values{"key": {key}}.Encode())
		b.click("button[value=check]")
		b.waitForText("The job was checked: still pending")
	}
	b.visit("/entities/order?" + url.Values{"key": {oddKeyValues[0]}}.Encode())
	b.do(chromedp.Click(chromedp.CSS(".close summary")))
	b.do(chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "shipped by hand"))
	b.click("button[value=close]")
	b.waitForText("The job was closed.", "shipped by hand")
	choose()
	b.click("button[value=cancel]")
	b.waitForText(fmt.Sprintf("Cancel %d jobs?", len(oddKeyValues)-1))
	b.click("button.grave")
	b.waitForText(fmt.Sprintf("%d jobs were cancelled.", len(oddKeyValues)-1))

	publishEvents(t, home, "payments.asked", "a", oddKeyValues[0], oddKeyValues[1], oddKeyValues[4])
	waitForOpenAlerts(t, home, 4)
	b.visit("/alerts?by=key")
	b.click(fmt.Sprintf("button[name=group][value=%q]", url.PathEscape(oddKeyValues[0])))
	b.waitForText("1 alert was acknowledged.")
	b.visit("/alerts?" + url.Values{"key": {oddKeyValues[1]}}.Encode())
	b.click("button[name=group]")
	b.waitForText("1 alert was acknowledged.")
	if got := acknowledgedOf(t, home); len(got) != 2 {
		t.Errorf("acknowledged are %q", got)
	} else {
		for _, key := range oddKeyValues[:2] {
			if _, is := got[key]; !is {
				t.Errorf("%q is not acknowledged, but %q", key, got)
			}
		}
	}
	var over web.Page[web.EndedJob]
	if callAPI(t, home, "GET", "/history?rule=order-unshipped&limit=100", "", "", &over); len(over.Items) != len(oddKeyValues) {
		t.Errorf("%d jobs ended, want %d", len(over.Items), len(oddKeyValues))
	}
	// A malformed form is refused with an error.
	if status, content := requestPage(t, "POST", home+"/jobs", "do=snooze&for=1h&job=order-unshipped/100%25zz"); status != 200 || strings.Count(content, "The form contains an invalid name.") != 1 {
		t.Errorf("an invalid name: %d %s", status, content)
	}
}
