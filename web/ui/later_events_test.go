package ui_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// laterEventsRule pauses between two events, and resolves by a third.
const laterEventsRule = `name: ticket-unanswered
entity: ticket
trigger: {event: tickets.opened, key: event.id}
resolve: {event: tickets.solved, key: event.id}
pause: {event: tickets.waiting, key: event.id, until: tickets.replied}
escalate: [{after: 4h, step: remind}]
`

// TestPreviewOfSeveralEvents checks that events are added to a preview and removed from it, in a narrow window, too, and
// that all of them are played by their times.
func TestPreviewOfSeveralEvents(t *testing.T) {
	t.Parallel()
	home := serve(t, laterEventsRule)
	for _, width := range []int64{400, 1440} {
		b := open(t, home, width, 900)
		b.visit("/rules/ticket-unanswered/edit")
		b.waitForText("remind", "Outcome: exhausted")
		evaluate[any](b, `document.querySelector("details:has(#at)").open = true; 0`)
		fill := func(n int, subject, after string) {
			b.do(
				chromedp.SendKeys(chromedp.CSS(fmt.Sprintf(".then:nth-of-type(%d) [name=event_subject]", n+1)), subject),
				chromedp.SendKeys(chromedp.CSS(fmt.Sprintf(".then:nth-of-type(%d) [name=event_after]", n+1)), after),
			)
		}
		add := func() { b.do(chromedp.Click(chromedp.CSS("[data-add-row]"))) }
		fill(1, "tickets.replied", "7h")
		add()
		fill(2, "tickets.waiting", "1h")
		add()
		fill(3, "tickets.solved", "9h")
		b.waitForText("Outcome: resolved") // paused from 1 h to 7 h, so that the reminder would come after 10 h
		if text := b.text(); strings.Contains(text, "remind") && evaluate[int](b, `document.querySelectorAll("#outcome .pill.warning").length`) > 0 {
			t.Errorf("the paused job raises the reminder:\n%s", text)
		}
		if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
			t.Errorf("at %d px the page is %d px too wide", width, wide)
		}
		b.checkAccessibility("a preview of several events")
		b.screenshot(fmt.Sprintf("preview-several-%d", width))

		b.do(chromedp.Click(chromedp.CSS(".then:nth-of-type(3) [data-remove-row]"))) // the pause
		b.waitForScript(`document.querySelectorAll("#outcome .pill.warning").length > 0`)
		b.do(chromedp.Click(chromedp.CSS(".then [data-remove-row]")))
		b.do(chromedp.Click(chromedp.CSS(".then [data-remove-row]"))) // the last row stays, and is empty
		b.waitForText("Outcome: exhausted")
		if rows := evaluate[string](b, `[...document.querySelectorAll(".then input")].map((f) => f.value).join()`); rows != ",," {
			t.Errorf("the fields that are left have %q", rows)
		}
	}
}

// TestPreviewRefusesTooManyEvents checks that a form with more events than a preview takes is refused, and none is left out.
func TestPreviewRefusesTooManyEvents(t *testing.T) {
	t.Parallel()
	home := serve(t, laterEventsRule)
	form := url.Values{"do": {"try"}, "version": {"1"}, "text": {laterEventsRule}, "event": {`{"id": "1"}`}}
	for range 101 {
		form.Add("event_subject", "tickets.waiting")
		form.Add("event_after", "")
		form.Add("event_data", "")
	}
	if _, content := requestPage(t, "POST", home+"/rules/ticket-unanswered/edit", form.Encode()); !strings.Contains(content, "at most 100 further events, not 101") {
		t.Error(content)
	}
}

// TestPreviewNamesChannels checks that the preview of the editor names the channels of each alert, in a narrow window, too.
func TestPreviewNamesChannels(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	c.Notify = filepath.Join(t.TempDir(), "channels.yaml")
	if err := os.WriteFile(c.Notify, []byte(strings.Replace(onCallChannels, "{to: chat}", "{severity: warning, to: chat}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	home, _ := run(t, c)
	rule := strings.Replace(onCallRule, "after: 1s,", "after: 1s, step: note, severity: info}\n  - {after: 2h,", 1)
	callAPI(t, home, "POST", "/rules", "application/yaml", rule, nil)
	for _, width := range []int64{400, 1400} {
		b := open(t, home, width, 1000)
		b.visit("/rules/order-unshipped/edit")
		b.waitForText("note → no channel", "primary → chat", "lead → phone, chat")
		evaluate[any](b, `document.querySelector("details:has(#at)").open = true; 0`)
		b.do(chromedp.SendKeys(chromedp.CSS("[name=event_subject]"), "orders.shipped"))
		b.do(chromedp.SendKeys(chromedp.CSS("[name=event_after]"), "9h"))
		b.waitForText("Outcome: resolved", "lead → chat, phone")
		if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
			t.Errorf("at %d px the page is %d px too wide", width, wide)
		}
		b.checkAccessibility("a preview with channels")
		b.do(chromedp.ScrollIntoView(chromedp.CSS("#outcome")))
		b.screenshot(fmt.Sprintf("preview-channels-%d", width))
	}
}
