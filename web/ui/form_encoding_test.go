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

// odd are keys that a form or its encoding might change.
var odd = []string{"a\nb", "a\rb", "a\r\nb", "\n", "a\tb", " lead trail ", "100%", "%0A", "a/b//c", "a+b&c=d", "\x01\x1b", "ü👩‍👩‍👧\u202e", strings.Repeat("\n", 512)}

// TestOddKeysInForms checks that jobs with odd keys can be checked, snoozed and cancelled in a browser, alone and
// with others, and that groups named by such keys can be acknowledged.
func TestOddKeysInForms(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, payments)
	later := time.Now().Add(time.Hour)
	for _, key := range odd {
		call(t, home, "POST", "/jobs", "application/json", text(t, map[string]any{"rule": "order-unshipped", "key": key, "since": later}), nil)
	}
	b := open(t, home, 1400, 900)
	choose := func() {
		b.visit("/jobs?entity=order")
		b.do(chromedp.Click(chromedp.CSS("input[data-all=job]")))
	}
	choose()
	b.click("button[value=snooze]")
	b.shows(fmt.Sprintf("%d jobs were snoozed.", len(odd)))
	for _, key := range odd[:4] {
		b.visit("/entities/order?" + url.Values{"key": {key}}.Encode())
		b.click("button[value=check]")
		b.shows("The job was checked: still pending")
	}
	b.visit("/entities/order?" + url.Values{"key": {odd[0]}}.Encode())
	b.click("button[value=cancel]")
	b.shows("Cancel 1 job?", "order-unshipped/a")
	b.click("button.grave")
	b.shows("The job was cancelled.")
	choose()
	b.click("button[value=cancel]")
	b.shows(fmt.Sprintf("Cancel %d jobs?", len(odd)-1))
	b.click("button.grave")
	b.shows(fmt.Sprintf("%d jobs were cancelled.", len(odd)-1))

	begin(t, home, "payments.asked", "a", odd[0], odd[1], odd[4])
	waitOpen(t, home, 4)
	b.visit("/alerts?by=key")
	b.click(fmt.Sprintf("button[name=group][value=%q]", url.PathEscape(odd[0])))
	b.shows("1 alert was acknowledged.")
	b.visit("/alerts?" + url.Values{"key": {odd[1]}}.Encode())
	b.click("button[name=group]")
	b.shows("1 alert was acknowledged.")
	if got := acknowledgedOf(t, home); len(got) != 2 {
		t.Errorf("acknowledged are %q", got)
	} else {
		for _, key := range odd[:2] {
			if _, is := got[key]; !is {
				t.Errorf("%q is not acknowledged, but %q", key, got)
			}
		}
	}
	var over web.Page[web.EndedJob]
	if call(t, home, "GET", "/history?rule=order-unshipped&limit=100", "", "", &over); len(over.Items) != len(odd) {
		t.Errorf("%d jobs ended, want %d", len(over.Items), len(odd))
	}
	// A malformed form is refused with an error.
	if status, content := page(t, "POST", home+"/jobs", "do=snooze&for=1h&job=order-unshipped/100%25zz"); status != 200 || strings.Count(content, "The form contains an invalid name.") != 1 {
		t.Errorf("an invalid name: %d %s", status, content)
	}
}
