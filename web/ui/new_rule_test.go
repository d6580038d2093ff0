package ui_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/web/ui"
)

// TestEditorCompletesFields checks that the editor completes fields and values of a rule at each level, describes a field
// under the pointer, lists all fields, and wraps long lines.
func TestEditorCompletesFields(t *testing.T) {
	t.Parallel()
	b := open(t, serve(t), 1200, 1000)
	b.visit("/new-rule")
	b.do(chromedp.Click(chromedp.CSS("label[for=text]")))
	for _, c := range []struct{ typed, offered string }{
		{"tri", "trigger"},
		{"{ev", "event"},
		{"orders.created, key: event.id, si", "since"},
		{"event.at}\rresolve:\r  - {event: orders.shipped, k", "key"},
		{"event.id}\r\bescalate:\r- sev", "severity"},
		{"warn", "warning"},
		{"\raf", "after"},
		{"1h\r\bgua", "guards"},
		{"\r  max_ch", "max_checks"},
	} {
		for i, line := range strings.Split(c.typed, "\r") {
			if i > 0 { // a key event without the character, which the editor inserts itself
				evaluate[any](b, editorScript(`querySelector(".cm-content").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", keyCode: 13, bubbles: true}))`))
			}
			b.do(chromedp.KeyEvent(line))
		}
		b.waitForScript(editorScript(fmt.Sprintf(`querySelector(".cm-tooltip-autocomplete li[aria-selected] .cm-completionLabel")?.textContent === %q`, c.offered)))
		if c.offered == "severity" {
			b.checkAccessibility("an editor that offers a field")
			b.screenshot("editor-completion")
		}
		b.waitForScript(`(() => { // the editor ignores a click on a list that it is about to replace
			const option = ` + editorScript(`querySelector(".cm-tooltip-autocomplete li[aria-selected]")`) + `;
			option?.dispatchEvent(new MouseEvent("mousedown", {bubbles: true, composed: true}));
			return option === null;
		})()`)
	}
	const want = "trigger: {event: orders.created, key: event.id, since: event.at}\nresolve:\n  - {event: orders.shipped, key: event.id}\n" +
		"escalate:\n- severity: warning\n  after: 1h\nguards: \n  max_checks: "
	if got := evaluate[string](b, `document.getElementById("text").value`); got != want {
		t.Errorf("the text is\n%q, want\n%q", got, want)
	}
	evaluate[any](b, `(() => {
		const lines = document.querySelector("rule-editor").shadowRoot.querySelectorAll(".cm-line");
		const range = document.createRange();
		const text = document.createTreeWalker(lines[2], NodeFilter.SHOW_TEXT);
		let at;
		while ((at = text.nextNode()) && !at.data.includes("event")) {}
		range.setStart(at, at.data.indexOf("event") + 1);
		range.setEnd(at, at.data.indexOf("event") + 3);
		const box = range.getBoundingClientRect();
		lines[2].dispatchEvent(new MouseEvent("mousemove", {clientX: box.left + 2, clientY: box.top + box.height / 2, bubbles: true, composed: true}));
		return 0;
	})()`)
	b.waitForScript(editorScript(`querySelector(".cm-field")?.innerText.startsWith("event string") === true`))
	b.screenshot("editor-description")
	evaluate[any](b, `document.querySelector("details:has(rule-fields) summary").click()`)
	b.waitForText("What creates a job: an event, a schedule or a heartbeat.", "max_checks")
	b.checkAccessibility("an editor with its list of fields")
	b.screenshot("editor-fields")
	if !evaluate[bool](b, editorScript(`querySelector(".cm-content").classList.contains("cm-lineWrapping")`)) {
		t.Error("long lines are not wrapped")
	}
}

// TestSampleOfDayIsAheadAtAnyHour checks that the deadline of the sample import, six in the morning of the day in its event,
// is 4 to 29 hours ahead at each hour: its steps come one by one.
func TestSampleOfDayIsAheadAtAnyHour(t *testing.T) {
	for half := range 48 {
		now := time.Date(2026, 11, 28, 0, 30*half, 5, 0, time.UTC)
		text, err := ui.SampleEvent("import-unfinished", now)
		if err != nil {
			t.Fatal(err)
		}
		var event struct {
			Day       string
			StartedAt time.Time `json:"started_at"`
		}
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		day, err := time.Parse(time.DateOnly, event.Day)
		if err != nil {
			t.Fatal(err)
		}
		if ahead := day.Add(6 * time.Hour).Sub(now); ahead < 4*time.Hour || ahead > 29*time.Hour || now.Sub(event.StartedAt) != 5*time.Second {
			t.Errorf("at %s: the deadline is %s ahead: %s", now.Format(time.TimeOnly), ahead, text)
		}
	}
}

// TestGallery checks that each example of the gallery has a working preview and can be saved.
func TestGallery(t *testing.T) {
	t.Parallel()
	home := serve(t)
	b := open(t, home, 1200, 900)
	for _, path := range []string{"/", "/rules"} {
		b.visit(path)
		b.waitForText("backup-missing", "or ping, expected after each tick", "order-unshipped", "An order was placed and nothing was shipped.")
		if undrawn := evaluate[[]string](b, `[...document.querySelectorAll(".gallery li")].filter((li) => ![...li.querySelectorAll("svg path")].some((path) => path.getBoundingClientRect().width > 0)).map((li) => li.innerText)`); len(undrawn) > 0 {
			t.Errorf("examples without a drawing: %q", undrawn)
		}
		b.checkAccessibility("the gallery on " + path)
	}
	all := evaluate[[]string](b, `[...document.querySelectorAll(".gallery h2 a")].map((a) => a.getAttribute("href"))`)
	if len(all) < 10 {
		t.Errorf("%d examples", len(all))
	}
	for _, path := range all {
		b.visit(path)
		b.waitForScript(`document.querySelector("#outcome ol.ladder, #outcome .notice") !== null`)
		if text := b.text(); !strings.Contains(text, "Outcome:") && !strings.Contains(text, "the job stays pending") && !strings.Contains(text, "requires ") {
			t.Errorf("%s would do nothing:\n%s", path, text)
		}
	}
	b.visit("/new-rule?from=order-unshipped")
	b.waitForText("primary", "escalated", "exhausted") // the order was placed now, so no step is skipped
	b.click("button.main")
	b.waitForText("order-unshipped", "enabled", "version 1, saved")
}
