package ui_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

// A group is muted with what it has in common filled in; a mute that can't be is shown again with
// why; what is muted is marked, and a mute ends before its time.
func TestMutes(t *testing.T) {
	home := serve(t, payments)
	begin(t, home, "payments.asked", "1")
	waitOpen(t, home, 1)
	b := open(t, home, 1400, 900)
	b.visit("/mutes")
	b.shows("Nothing is muted.")
	b.visit("/alerts?by=site")
	b.click(`a[aria-label^="Mute site"]`)
	b.shows("Mute something")
	b.accessible("mute something")
	b.shoot("mute")
	if got := evaluate[string](b, `document.querySelector("[name=labels]").value`); got != "site=<b>\u202enorth" {
		t.Errorf("the label that is filled in is %q", got)
	}

	// Without a reason, and with labels that are too many, there is none, and nothing is lost.
	evaluate[any](b, `document.querySelector("[name=reason]").required = false; 0`)
	b.do(chromedp.SendKeys(chromedp.CSS("[name=labels]"), strings.Repeat("\n", 1)+strings.Join(strings.Split("abcdefghijklmnopqrstu", ""), "\n")))
	b.do(chromedp.SendKeys(chromedp.CSS("[name=reason]"), "<script>the belt"))
	b.refused = "422"
	b.click("button[value=make]")
	b.shows("There is no such mute yet", "the limit is 20")
	b.accessible("a mute that can't be")
	evaluate[any](b, `document.querySelector("[name=labels]").value = document.querySelector("[name=labels]").value.split("\n").find((l) => l.includes("site=")).replace(/^[a-z](?=site=)/, ""); 0`)
	b.click("button[value=make]")
	b.shows("1 mute was made.", "site: <b>⟨U+202E⟩north", "<script>the belt", "by loopback")
	b.accessible("mutes")
	b.shoot("mutes")

	b.visit("/alerts")
	b.shows("1 alert, the oldest", "1 muted")
	b.click("a.tag")
	b.shows("<script>the belt")
	b.click(`button[aria-label="End mute 1"]`)
	b.shows("1 mute was ended.", "Nothing is muted.", "Over")
	var page web.Page[web.Mute]
	if call(t, home, "GET", "/mutes", "", "", &page); len(page.Items) != 1 || page.Items[0].EndedBy != "loopback" {
		t.Errorf("%+v", page.Items)
	}
	b.visit("/alerts")
	b.shows("1 alert, the oldest")
	if strings.Contains(b.text(), "muted") {
		t.Error("the mute has ended, and the alert is shown as muted")
	}
}
