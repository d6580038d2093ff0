package ui_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"deadman/internal/longtest"
	"deadman/internal/testwait"
	"deadman/web"
)

// severalRules are rules of all kinds.
var severalRules = []string{orders, `name: refund-unconfirmed
description: A refund was requested and the provider did not confirm it.
entity: refund
trigger: {event: refunds.requested, key: event.id}
update: {event: refunds.changed, key: event.id}
pause: {event: refunds.changed, key: event.id, if: event.status == "HELD"}
resolve:
  - {event: provider.refunds.confirmed, key: event.id}
  - {event: provider.refunds.rejected, key: event.id, as: rejected}
escalate:
  - {after: 2h, step: remind, severity: info, text: "refund {{key}}: reminder"}
  - {after: 1d, step: warn, severity: warning, text: "refund {{key}}: <b>no</b> confirmation"}
  - {every: 1d, times: 3, step: again, severity: error}
  - {after: 7d, step: by-hand, severity: critical}
slot: 15m
hold: 7d
`, `name: device-silent
description: A device has not been heard of.
entity: device
trigger: {heartbeat: {event: devices.*.beat, key: wildcard(1), every: 10m, grace: 2m}}
escalate:
  - {after: 0s, step: silent, severity: warning}
  - {after: 1h, step: lost, severity: error}
  - {every: 30m, until: acknowledged, step: nag, severity: critical}
`, `name: import-missing
description: A nightly import did not take place.
entity: import
trigger: {schedule: "30 1 * * *", zone: Europe/London, keys: [customers, products]}
resolve: {event: imports.finished, key: event.source}
escalate:
  - {at: "06:00", step: late, severity: critical, text: "the import of {{key}} is not there at six in the morning"}
`}

// rulePage are the pages about rules.
var rulePage = []string{
	"/rules", "/rules?text=nothing-like-it", "/rules/order-unshipped", "/rules/refund-unconfirmed", "/rules/device-silent", "/rules/import-missing",
	"/rules/refund-unconfirmed/versions", "/rules/refund-unconfirmed/edit", "/rules/order-unshipped/send", "/new-rule", "/new-rule?from=ticket-unanswered",
}

// TestRulePages checks that the pages about rules have no accessibility violations, fit a window of 400 px, and
// support dark mode.
func TestRulePages(t *testing.T) {
	longtest.Only(t, "it measures the layout")
	t.Parallel()
	home := serve(t, severalRules...)
	callAPI(t, home, "PUT", "/rules/refund-unconfirmed", "application/yaml", severalRules[1]+"labels: {team: payments}\n", nil)
	callAPI(t, home, "POST", "/rules/device-silent/pause", "application/json", "", nil)
	callAPI(t, home, "POST", "/rules/device-silent/pings", "application/json", `{"key": "pump-7"}`, nil)
	send(t, home, "orders.created", `{"id": "1", "total": 12.5}`)
	send(t, home, "refunds.requested", `{"id": "r-1"}`)
	for _, width := range []int64{1400, 400, 1600} {
		b := open(t, home, width, 900)
		for i, path := range rulePage {
			b.setDarkMode(width == 400 && i%2 == 1 || width == 1600)
			b.visit(path)
			if path == "/rules/refund-unconfirmed/edit" {
				b.waitForText("by-hand")
			}
			b.screenshot(fmt.Sprintf("rules-%d-%s", width, url.PathEscape(path)))
			if width != 1600 {
				b.checkAccessibility(fmt.Sprintf("%s at %d px", path, width))
			}
			if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
				t.Errorf("%s is %d px too wide for %d px", path, wide, width)
			}
		}
	}
}

// TestTicksOfRule checks that the page of a rule with a schedule lists its last ten applied ticks, newest first.
func TestTicksOfRule(t *testing.T) {
	t.Parallel()
	home := serve(t, "name: import-due\nentity: import\ntrigger: {schedule: \"@every 1s\", emit: {subject: imports.due}}\n")
	b := open(t, home, 1200, 900)
	testwait.Until(t, "eleven ticks", func() bool {
		var ticks web.Page[web.Tick]
		callAPI(t, home, "GET", "/rules/import-due/ticks", "", "", &ticks)
		return len(ticks.Items) > 10
	})
	b.visit("/rules/import-due")
	b.waitForText("Ticks the last ones that were applied", "emitted", "import-due-")
	ids := evaluate[[]string](b, `[...document.querySelectorAll("#ticks + div td code")].map(c => c.textContent)`)
	if len(ids) != 10 || !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("the page lists the events %v, want those of ten ticks, newest first", ids)
	}
	b.checkAccessibility("the page of a rule with ticks")
}

// TestStoredSchedulesOfRule checks that the stored schedules of a rule are listed, found by the beginning of their ids, and
// shown with their next and last ticks.
func TestStoredSchedulesOfRule(t *testing.T) {
	t.Parallel()
	home := serve(t, "name: report-due\nentity: report\ntrigger: {schedule: \"@stored\", emit: {subject: reports.due}}\n")
	b := open(t, home, 1200, 900)
	b.visit("/rules/report-due")
	b.waitForText("each tick of a stored schedule publishes an event on reports.due")
	b.click(`a[href="/rules/report-due/schedules"]`)
	b.waitForText("No schedules yet.", "deadman schedule put report-due ID")
	b.checkAccessibility("no schedules")
	var lines strings.Builder
	lines.WriteString(`{"rule": "report-due", "id": "customer/1", "schedule": "@every 1s", "data": {"customer": 1}}` + "\n")
	for i := range 60 {
		fmt.Fprintf(&lines, `{"rule": "report-due", "id": "z-%02d", "schedule": "0 9 * * 1-5", "zone": "Europe/Berlin", "enabled": %v}`+"\n", i, i != 0)
	}
	callAPI(t, home, "POST", "/schedules/bulk", "application/x-ndjson", lines.String(), nil)
	b.visit("/rules/report-due/schedules")
	b.waitForText("customer/1", "z-00", "not enabled", "Europe/Berlin", "z-48")
	if text := b.text(); strings.Contains(text, "z-49") {
		t.Errorf("the first page has more than fifty schedules: %s", text)
	}
	b.visit("/rules/report-due/schedules?prefix=z-5")
	b.waitForText("z-59")
	if text := b.text(); strings.Contains(text, "z-49") || strings.Contains(text, "customer/1") {
		t.Errorf("the filter has no effect: %s", text)
	}
	testwait.Until(t, "ticks", func() bool {
		var ticks web.Page[web.ScheduleTick]
		callAPI(t, home, "GET", "/schedules/report-due/ticks?id=customer/1&outcome=emitted", "", "", &ticks)
		return len(ticks.Items) > 10
	})
	b.visit("/rules/report-due/schedules")
	b.click(`a[href$="id=customer%2f1"], a[href$="id=customer%2F1"]`)
	b.waitForText("@every 1s (UTC)", "Next ticks", `"customer": 1`, "emitted")
	b.checkAccessibility("a stored schedule")
	b.screenshot("rule-schedules")
	checkTickPages(t, b)
	callAPI(t, home, "PUT", "/schedules/report-due/once", "application/json", `{"schedule": "@at 2026-01-01T00:00:00Z"}`, nil)
	b.visit("/rules/report-due/schedules?id=once")
	b.waitForText("the schedule is over. Write a later time, or delete it.")
	callAPI(t, home, "POST", "/rules/report-due/pause", "", "", nil)
	b.visit("/rules/report-due/schedules?id=z-01")
	b.waitForText("The rule is paused or not enabled.", "Next ticks", "not made up for", "paused")
	callAPI(t, home, "PUT", "/rules/report-due", "application/yaml", "name: report-due\nentity: report\ntrigger: {schedule: \"@daily\", emit: {subject: reports.due}}\n", nil)
	testwait.Until(t, "the node has the trigger", func() bool {
		var s web.Schedule
		callAPI(t, home, "GET", "/schedules/report-due/z-00", "", "", &s)
		return s.Inactive
	})
	for _, path := range []string{"", "?id=z-00"} {
		b.visit("/rules/report-due/schedules" + path)
		b.waitForText("The rule has another trigger now, so these schedules do not tick.", "deadman schedule delete report-due ID")
	}
	b.checkAccessibility("schedules of a rule with another trigger")
}

// checkTickPages checks that the ticks of a schedule are listed in pages, and those of its rule by outcome, time and delay.
func checkTickPages(t *testing.T, b *tab) {
	t.Helper()
	ticks := func() []string {
		return evaluate[[]string](b, `[...document.querySelectorAll("table td:first-child")].map(c => c.textContent)`)
	}
	// The rows and the link are read at once: a live update between them would move the page.
	last := evaluate[struct {
		Rows        int
		Text, Older string
	}](b, `(() => {
		const card = document.querySelector("#ticks ~ .card"), older = document.querySelector('nav[aria-label="Pagination of ticks"] a')
		return {rows: card.querySelectorAll("td:first-child").length, text: card.innerText, older: older.pathname + older.search}
	})()`)
	if last.Rows != 10 {
		t.Fatalf("the page of the schedule has %d of its ten last ticks", last.Rows)
	}
	b.visit(last.Older)
	b.waitForText("Ticks of schedule customer/1 of report-due", "First page", "customer/1", "emitted")
	for _, at := range ticks() {
		if strings.Contains(last.Text, at) {
			t.Errorf("the page of older ticks has the tick %s of the page before", at)
		}
	}
	b.checkAccessibility("ticks of a schedule")
	b.visit("/rules/report-due")
	b.waitForText("the last ones of all schedules", "customer/1", "emitted")
	b.click(`a[href="/rules/report-due/ticks"]`)
	b.waitForText("Ticks of report-due, newest first", "customer/1")
	b.checkAccessibility("ticks of a rule")
	b.screenshot("rule-ticks")
	for _, c := range []struct{ query, text string }{
		{"outcome=failed", "No ticks match these filters."},
		{"outcome=emitted&within=1h", "customer/1"},
		{"late=1h", "No ticks match these filters."},
		{"missed=true&within=24h", "No ticks match these filters."},
		{"to=2026-01-01T00:00:00Z", "before 2026-01-01T00:00:00Z"},
	} {
		b.visit("/rules/report-due/ticks?" + c.query)
		b.waitForText(c.text)
	}
}

// TestConflict checks that the second of two concurrent editors sees the first one's changes, and that no text is
// lost.
func TestConflict(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	b := open(t, home, 1200, 900)
	b.visit("/rules/order-unshipped/edit")
	b.waitForText("Preview nothing is saved or sent")
	callAPI(t, home, "PUT", "/rules/order-unshipped", "application/yaml", strings.Replace(orders, "total}}) is", "total}} EUR) is", 1), nil)
	evaluate[any](b, `document.getElementById("text").value += "early: 2h\n"`)
	b.allowedStatus = "412"
	b.click("button.main")
	b.waitForText("Version 2 was saved while you were editing, by loopback", "Their changes", "total}} EUR) is", "Changes if you save now", "+early: 2h")
	if mine := evaluate[string](b, `document.getElementById("text").value`); !strings.Contains(mine, "early: 2h") || strings.Contains(mine, "EUR") {
		t.Errorf("what was written is %s", mine)
	}
	b.checkAccessibility("a conflict")
	b.screenshot("rules-conflict")
	b.click("button.main") // now it replaces their version
	b.waitForText("Rule saved.", "Changes in the newest version", "+early: 2h", "3, saved")
	if text := b.text(); strings.Count(text, "Rule saved.") != 1 {
		t.Errorf("it is shown more than once: %s", text)
	}
}

// editorScript returns a script that reads the editor's shadow tree.
func editorScript(what string) string {
	return `document.querySelector("rule-editor").shadowRoot.` + what
}

// waitForScript waits until a script returns true. A script that a navigation interrupts runs again on the next page.
func (b *tab) waitForScript(script string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	for {
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise))
		switch {
		case err == nil && holds:
			return
		case ctx.Err() != nil:
			b.Fatalf("it never comes to %s: %v\n%s", script, err, b.text())
		}
		pausePoll(b.ctx)
	}
}

// waitForNavigation runs an action and waits for the next page.
func (b *tab) waitForNavigation(action chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, action); err != nil {
		b.Fatalf("%v\n%s", err, b.text())
	}
}

// TestEditor checks that errors appear in place and in a list during typing, and that the keyboard can enter, leave,
// and reach the error and Save.
func TestEditor(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	b := open(t, home, 1200, 900)
	b.visit("/rules/order-unshipped/edit")
	b.waitForText("Preview nothing is saved or sent", "primary")
	b.do(chromedp.Click(chromedp.CSS("label[for=text]")), chromedp.KeyEvent("nonsense: a/b\r"))
	if q := evaluate[string](b, `document.activeElement.tagName`); q != "RULE-EDITOR" {
		t.Errorf("a slash that is typed leads to %s", q)
	}
	b.waitForText("1 error:", "line 1", "nonsense")
	b.waitForScript(editorScript(`querySelectorAll(".cm-lintRange-error").length === 1`))
	b.waitForScript(editorScript(`querySelector(".cm-gutter-lint .cm-lint-marker-error") !== null`))
	b.checkAccessibility("an editor with a problem")
	b.screenshot("rules-problem")

	b.do(chromedp.Click(chromedp.CSS("#outcome a[data-line]")))
	b.waitForScript(editorScript(`querySelector(".cm-activeLine").textContent === "nonsense: a/b"`))
	b.do(chromedp.KeyEvent(kb.Tab))
	b.waitForScript(`document.activeElement.tagName === "RULE-EDITOR"`) // Tab indents
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent(kb.Tab))
	b.waitForScript(`document.activeElement.tagName !== "RULE-EDITOR"`)

	evaluate[any](b, `addEventListener("beforeunload", (e) => { window.asked = e.defaultPrevented; e.stopImmediatePropagation(); }, true); 0`)
	if isDirty := evaluate[bool](b, `(() => { const e = new Event("beforeunload", { cancelable: true }); dispatchEvent(e); return e.defaultPrevented; })()`); !isDirty {
		t.Error("what is written is left without a question")
	}
	b.allowedStatus = "422"
	b.waitForNavigation(chromedp.KeyEvent("s", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.waitForText("The rule was not saved:")
	evaluate[any](b, `document.getElementById("text").value = document.getElementById("text").value.replace(/ *nonsense: a.b\n/, "early: 2h\n"); 0`)
	b.do(chromedp.Focus(chromedp.CSS("#event")))
	b.waitForNavigation(chromedp.KeyEvent("s", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.waitForText("Changes in the newest version", "+early: 2h")
}

// TestEditorLineNumbers checks that each line number of the editor is beside the first row of its line, also if long lines wrap
// and after a change of the width, and that the gutter ends with the box.
func TestEditorLineNumbers(t *testing.T) {
	t.Parallel()
	long := strings.Replace(orders, "entity: order", "# "+strings.Repeat("a comment that wraps ", 12)+"\nentity: order", 1)
	short := strings.NewReplacer("order-unshipped", "short", "description: An order was placed and nothing was shipped.\n", "").Replace(orders)
	home := serve(t, long, short)
	for name, c := range map[string]struct {
		rule   string
		width  int64
		mobile bool
	}{"phone": {"order-unshipped", 390, true}, "narrow": {"order-unshipped", 390, false}, "wide": {"order-unshipped", 1280, false}, "short": {"short", 1280, false}} {
		b := open(t, home, c.width, 900)
		resize := func(width int64) {
			b.do(chromedp.EmulateViewport(width, 900, func(p *emulation.SetDeviceMetricsOverrideParams, _ *emulation.SetTouchEmulationEnabledParams) {
				p.Mobile = c.mobile
			}))
		}
		resize(c.width)
		b.visit("/rules/" + c.rule + "/edit")
		b.waitForText("primary")
		for _, to := range []int64{c.width, 600, c.width} {
			resize(to)
			b.waitForScript(`(() => {
				const root = document.querySelector("rule-editor").shadowRoot;
				const lines = [...root.querySelectorAll(".cm-line")], box = root.querySelector(".cm-scroller").getBoundingClientRect();
				const numbers = [...root.querySelectorAll(".cm-lineNumbers .cm-gutterElement")].filter(e => e.offsetHeight > 0 && getComputedStyle(e).visibility !== "hidden");
				const firstRow = (e) => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects()[0] ?? e.getBoundingClientRect(); };
				window.wrong = numbers.filter(n => Math.abs(firstRow(n).top - firstRow(lines[Number(n.innerText) - 1]).top) > 3).map(n => n.innerText + " at " + firstRow(n).top + ", its line at " + firstRow(lines[Number(n.innerText) - 1]).top);
				if (numbers.length !== lines.length) window.wrong.push(numbers.length + " numbers of " + lines.length + " lines");
				const end = Math.max(...[...root.querySelectorAll(".cm-gutters")].map(e => e.getBoundingClientRect().bottom));
				if (end < box.bottom - 2) window.wrong.push("the gutter ends at " + end + ", the box at " + box.bottom);
				window.rows = Math.max(...lines.map(e => e.offsetHeight)) / Math.min(...lines.map(e => e.offsetHeight));
				return window.wrong.length === 0;
			})()`)
			if rows := evaluate[float64](b, "window.rows"); to < 1000 && c.rule != "short" && rows < 2 {
				t.Errorf("at %d px no line wraps", to)
			}
		}
		b.screenshot("editor-lines-" + name)
	}
}

// TestPreview checks that a preview has a selectable length and later events, with and without scripts.
func TestPreview(t *testing.T) {
	t.Parallel()
	home := serve(t, severalRules...)
	send(t, home, "refunds.requested", `{"id": "r-1"}`)
	b := open(t, home, 1400, 900)
	for _, path := range []string{"/rules/refund-unconfirmed", "/rules/refund-unconfirmed/edit"} {
		b.visit(path)
		b.do(chromedp.Click(chromedp.CSS(`label:has([value="3h"])`)))
		evaluate[any](b, `document.querySelector("button[value=try]").click(); 0`)
		b.waitForText("3 h later: 1 alert raised: remind.", "by-hand", "Outcome: exhausted")
		if late := evaluate[int](b, `document.querySelectorAll("ol.ladder li.later").length`); late != 6 {
			t.Errorf("%s: %d lines are later than 3 h", path, late)
		}
		b.waitForScript(`document.querySelector(".axis.roomy .cut, .axis.tight .cut") !== null`)
		b.screenshot("rules-ahead" + strings.ReplaceAll(path, "/", "-"))
		evaluate[any](b, `document.querySelector("details:has(#at)").open = true; 0`)
		b.do(chromedp.SendKeys(chromedp.CSS("[name=event_subject]"), "provider.refunds.rejected"), chromedp.SendKeys(chromedp.CSS("[name=event_after]"), "5h"))
		evaluate[any](b, `document.querySelector("button[value=try]").click(); 0`)
		b.waitForText("Outcome: rejected", "resolved")
	}
	b.visit("/rules/import-missing")
	b.click(`button[value=try]`)
	b.waitForText("the import of customers is not there at six in the morning", "Ticks:")
}

// TestSend checks that an event is published after a warning, with links to its effect.
func TestSend(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	b := open(t, home, 1200, 900)
	b.visit("/rules/order-unshipped")
	b.click(`a[href$="/send"]`)
	b.waitForText("This publishes a real event.")
	evaluate[any](b, `document.getElementById("event").value = JSON.stringify({id: "<b>7</b>", total: 3}); 0`)
	b.click("button.grave")
	b.waitForText("Event stored", "order <b>7</b>", "by rule order-unshipped")
	b.checkAccessibility("an event was sent")
	b.screenshot("rules-sent")
	b.click(`.notice a[href^="/entities/"]`)
	b.waitForText("<b>7</b>")
	b.visit("/rules/order-unshipped/send?subject=no.subscriber")
	b.allowedStatus = "409"
	b.click("button.grave")
	b.waitForText("The event was not sent:")
	b.visit("/rules/order-unshipped/send")
	evaluate[any](b, `document.getElementById("event").value = "{}"; 0`)
	b.click("button.grave")
	b.waitForText("Event stored", "Rule order-unshipped cannot process it")
	if text := b.text(); strings.Contains(text, "No rule") || !evaluate[bool](b, `document.querySelector(".notice").matches(".ill")`) {
		t.Errorf("a refused event gives:\n%s", text)
	}
}

// TestRuleShowsItsAlerts checks that the page of a rule has its refused events, and its open alerts before the next checks that may
// raise one.
func TestRuleShowsItsAlerts(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, "name: last\nentity: last\ntrigger: {event: last.created, key: event.id}\nresolve: {event: last.done, key: event.id}\nescalate: [{after: 1s, step: only, severity: error}]\nslot: 1s\n")
	publishEvents(t, home, "orders.created", "1", "2", "3", "4", "5", "6", "7")
	send(t, home, "orders.created", `{"no": "id"}`)
	publishEvents(t, home, "last.created", "8")
	open8 := waitForOpenAlerts(t, home, 8)
	var letters web.Page[web.DeadLetter]
	for deadline := time.Now().Add(within); len(letters.Items) == 0; pausePoll(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatal("the event is not refused")
		}
		callAPI(t, home, "GET", "/dead-letters", "", "", &letters)
	}
	b := open(t, home, 1400, 900)
	b.visit("/rules/order-unshipped")
	b.waitForText("1 refused", "All open alerts", "Next checks", "escalated")
	if rows := evaluate[[]int](b, `["#alerts", "#next"].map((h) => document.querySelectorAll(h + " + .card tbody tr").length)`); len(open8) != 8 || rows[0] != 5 || rows[1] != 5 {
		t.Errorf("%v rows of alerts and checks, want 5 each", rows)
	}
	if !evaluate[bool](b, `document.getElementById("alerts").getBoundingClientRect().top < document.getElementById("next").getBoundingClientRect().top`) {
		t.Error("the next checks are above the open alerts")
	}
	b.checkAccessibility("a rule with alerts")
	b.screenshot("rule-alerts")
	b.visit("/rules/last")
	b.waitForText("1 open alert", "All open alerts")
	if strings.Contains(b.text(), "Next checks") {
		t.Error("the next check only ends the job, and is listed")
	}
	b.visit("/")
	b.waitForText("1 refused")
	callAPI(t, home, "POST", "/mutes", "application/json", `{"match": {"rule": "order-*"}, "for": "4h", "reason": "test"}`, nil)
	b.waitForText("7 muted")
}

// TestPagesMarkTheirPlace checks that pages below an entry of the navigation, and errors there, mark it, and that no logo is green
// on a page that does not check the node.
func TestPagesMarkTheirPlace(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, "name: backup\nentity: host\ntrigger: {heartbeat: {every: 24h, keys: [crm]}}\n")
	for path, want := range map[string]string{
		"/rules/order-unshipped/ticks": `href="/rules" aria-current`, "/rules/order-unshipped/schedules": `href="/rules" aria-current`,
		"/rules/nope": `href="/rules" aria-current`, "/alerts/none": `href="/alerts" aria-current`, "/rules": `<header class="bar">`,
		"/health": `<header class="bar ok">`, "/": `<header class="bar ok">`, "/sessions": `<header class="bar">`,
	} {
		answer, err := http.Get(home + path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s has no %s: %v", path, want, err)
		}
	}
	callAPI(t, home, "POST", "/rules/backup/pause", "", "", nil)
	callAPI(t, home, "POST", "/rules/order-unshipped/pause", "", "", nil)
	const warning = "and with them the alerts of missing heartbeats"
	for path, want := range map[string]bool{"/rules/backup": true, "/rules/order-unshipped": false} {
		if _, content := requestPage(t, "GET", home+path, ""); strings.Contains(content, warning) != want {
			t.Errorf("%s warns of the alerts of heartbeats: %v, want %v", path, !want, want)
		}
	}
}

// TestSendFromOneForm checks that a form sent twice publishes once, and publishes again with a changed body.
func TestSendFromOneForm(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	_, content := requestPage(t, "GET", home+"/rules/order-unshipped/send", "")
	_, once, _ := strings.Cut(content, `name="once" value="`)
	once, _, _ = strings.Cut(once, `"`)
	form := func(id string) string {
		return url.Values{"sure": {"yes"}, "once": {once}, "subject": {"orders.created"}, "event": {`{"id": "` + id + `", "total": 1}`}}.Encode()
	}
	for _, c := range []struct {
		id, message string
		before      bool
	}{{"1", "message 1 ", false}, {"1", "message 1 ", true}, {"2", "message 2 ", false}, {"1", "message 1 ", true}} {
		if status, content := requestPage(t, "POST", home+"/rules/order-unshipped/send", form(c.id)); status != 200 || !strings.Contains(content, "</b> as "+c.message) || !strings.Contains(content, ">order "+c.id+"<") || strings.Contains(content, "It was sent before") != c.before {
			t.Errorf("%s, sent with %s: %d %s", c.id, once, status, content)
		}
	}
}

// TestVersions checks that any two versions can be compared, and that an old one can be saved as a new one.
func TestVersions(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	for _, slot := range []string{"10s", "2m"} {
		callAPI(t, home, "PUT", "/rules/order-unshipped", "application/yaml", strings.Replace(orders, "slot: 1s", "slot: "+slot, 1), nil)
	}
	b := open(t, home, 1200, 900)
	b.visit("/rules/order-unshipped/versions")
	b.waitForText("Changes from version 2 to 3", "-slot: 10s")
	b.do(chromedp.Click(chromedp.CSS(`[aria-label="From version 1"]`)))
	b.click("button.main")
	b.waitForText("Changes from version 1 to 3", "-slot: 1s", "+slot: 2m")
	b.screenshot("rules-versions")
	b.click(`a[href$="version=1"]`)
	b.waitForText("This is version 1. Saving creates version 4.")
	b.click("button.main")
	b.waitForText("version 4, saved", "+slot: 1s")
}

// TestDeleteRule checks that a rule is deleted after a confirmation, and that a rule of a bundle is read-only.
func TestDeleteRule(t *testing.T) {
	t.Parallel()
	home := serve(t, severalRules...)
	callAPI(t, home, "PUT", "/rules/order-unshipped?bundle=file:orders&adopt=true", "application/yaml", orders+"early: 2h\n", nil)
	b := open(t, home, 1200, 900)
	b.visit("/rules/order-unshipped")
	b.waitForText("Managed in the files of bundle file:orders. Change it there and run deadman rule apply -f with the file or folder.")
	b.checkAccessibility("a rule of a bundle")
	b.screenshot("rule-of-bundle")
	b.waitForScript(`document.querySelector("button[value=delete]") === null`)
	b.visit("/rules/order-unshipped/edit")
	b.waitForText("This rule is managed in the files of bundle file:orders", "primary")
	b.waitForScript(`document.querySelector("button.main") === null`)
	b.visit("/rules/import-missing")
	b.click("button[value=delete]")
	b.waitForText("Delete rule import-missing?")
	b.click("button.grave")
	b.waitForText("Rule deleted.", "refund-unconfirmed")
	if strings.Contains(b.text(), "import-missing") {
		t.Error("it is still there")
	}
}

// TestPingAddresses checks that ping URLs are created and removed on the page of the rule.
func TestPingAddresses(t *testing.T) {
	t.Parallel()
	home := serve(t, severalRules...)
	b := open(t, home, 1200, 900)
	b.visit("/rules/device-silent")
	b.waitForText("No ping URLs yet.")
	b.do(chromedp.SendKeys(chromedp.CSS("#pings ~ form [name=key]"), "pump-9"))
	b.click("button[value=ping]")
	b.waitForText("Ping URL created.", "pump-9", "curl -fsS", home+"/ping/", "Copy")
	b.do(chromedp.SendKeys(chromedp.CSS("#pings ~ form [name=key]"), "pump-9"))
	b.click("button[value=ping]")
	b.waitForText("This ping URL already exists.")
	b.click("button[value=unping]")
	b.waitForText("Delete the ping URL of pump-9?")
	b.click("button.grave")
	b.waitForText("Ping URL deleted.", "No ping URLs yet.")
}

// TestRuleActionsAreAudited checks that the result of an action on a rule is shown once, and not after a preview on that
// page.
func TestRuleActionsAreAudited(t *testing.T) {
	t.Parallel()
	home := serve(t, orders, severalRules[2])
	for _, c := range []struct{ form, wantText string }{{"do=pause", "Rule paused."}, {"do=resume", "Rule resumed."}} {
		if status, content := requestPage(t, "POST", home+"/rules/order-unshipped", c.form); status != 200 || strings.Count(content, c.wantText) != 1 {
			t.Errorf("%s: %d %s", c.form, status, content)
		}
	}
	same := url.Values{"do": {"save"}, "text": {orders}, "version": {"1"}}.Encode()
	if status, content := requestPage(t, "POST", home+"/rules/order-unshipped/edit", same); status != 200 || !strings.Contains(content, "no new version was created") {
		t.Errorf("saved as it was: %d %s", status, content)
	}
	if _, content := requestPage(t, "POST", home+"/rules/device-silent?did=address-gone", "do=try"); strings.Contains(content, "Ping URL deleted") {
		t.Errorf("tried: %s", content)
	}
	if _, content := requestPage(t, "GET", home+"/rules/order-unshipped?did=hacked", ""); strings.Contains(content, "hacked") {
		t.Errorf("an address makes up what was done: %s", content)
	}
}

// TestManyPingAddresses checks that all ping URLs are reachable by pagination, that those with undeclared keys are
// marked, and that a single one can be selected.
func TestManyPingAddresses(t *testing.T) {
	t.Parallel()
	home := serve(t, "name: backup\nentity: host\ntrigger: {heartbeat: {every: 24h, grace: 1h, keys: [key-000, key-119]}}\nescalate: [{after: 0s, step: silent, severity: warning}]\n")
	for i := range 120 {
		callAPI(t, home, "POST", "/rules/backup/pings", "application/json", fmt.Sprintf(`{"key": "key-%03d"}`, i), nil)
	}
	path, seen, marked := "/rules/backup", 0, 0
	for pages := 0; path != "" && pages < 5; pages++ {
		status, content := requestPage(t, "GET", home+path, "")
		if status != 200 {
			t.Fatalf("%s: %d %s", path, status, content)
		}
		seen += strings.Count(content, "curl -fsS -m 10 --retry 3 "+home) / 2 // to read, and to copy
		marked += strings.Count(content, "not in the rule&#39;s keys") + strings.Count(content, "not in the rule's keys")
		path = ""
		if _, after, more := strings.Cut(content, `" rel="next">Next page`); more {
			before := strings.TrimSuffix(content, `" rel="next">Next page`+after)
			path = html.UnescapeString(before[strings.LastIndex(before, `"`)+1:])
		}
	}
	if seen != 120 || marked != 118 {
		t.Errorf("%d addresses are shown, %d of them marked; want 120 and 118", seen, marked)
	}
	_, content := requestPage(t, "GET", home+"/rules/backup?ping=key-119", "")
	if strings.Count(content, "curl -fsS") != 2 || !strings.Contains(content, "<bdi>key-119</bdi>") || !strings.Contains(content, "All ping URLs") {
		t.Errorf("of one rule: %s", content)
	}
	if _, content = requestPage(t, "GET", home+"/rules/backup?ping=nope", ""); !strings.Contains(content, "<bdi>nope</bdi> has no ping URL.") {
		t.Errorf("of a rule that does not exist: %s", content)
	}
}

// TestLoginAndDocs checks that the login page and the API page match the others and have no accessibility violations.
func TestLoginAndDocs(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	b, narrow := open(t, home, 1400, 900), open(t, home, 400, 800)
	visit := func(b *tab, path string) {
		b.visit(path)
		if path != "/docs/api" || b == narrow {
			b.checkAccessibility(path)
		}
		b.screenshot("framed" + strings.ReplaceAll(path, "/", "-") + fmt.Sprint(evaluate[int](b, "innerWidth")))
		if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
			t.Errorf("%s is %d px too wide", path, wide)
		}
	}
	visit(b, "/docs/api")
	b.waitForText("Machine-readable: openapi.json")
	narrow.setDarkMode(true)
	visit(narrow, "/docs/api")
	var token struct{ Secret string }
	callAPI(t, home, "POST", "/tokens", "application/json", `{"name": "me", "scopes": ["admin"]}`, &token)
	visit(narrow, "/login")
	visit(b, "/login")
	b.do(chromedp.SendKeys(chromedp.CSS("#token"), token.Secret))
	b.click("button")
	b.waitForText("All systems of deadman operational")
}

// TestLongRuleNames checks that a long name is on one line in a wide window, that the cells of its row begin beside its first
// line in a narrow one, that open alerts and the status stay in view, and that undetermined checks have no column of zeros.
func TestLongRuleNames(t *testing.T) {
	t.Parallel()
	const long = "warehouse-order-picked-not-handed-over"
	home := serve(t, orders, strings.NewReplacer("order-unshipped", long, "orders.created", "orders.picked", "entity: order", "entity: order-of-a-remote-warehouse",
		"nothing was shipped.", "nothing was shipped, as https://wiki.example.org/"+strings.Repeat("a-long-path/", 20)+" describes.").Replace(orders))
	b := open(t, home, 1400, 900)
	const lines = `(() => { const a = document.querySelector("#rule-` + long + ` a.name"), r = document.createRange(); r.selectNodeContents(a); return r.getClientRects().length })()`
	for _, width := range []int64{1400, 400} {
		b.resize(width, 900)
		b.visit("/rules")
		b.waitForText(long, "Pending")
		if n := evaluate[int](b, lines); width == 1400 && n != 1 || width == 400 && n < 2 {
			t.Errorf("at %d px the name has %d lines", width, n)
		}
		if sunk := evaluate[float64](b, `(() => { const row = document.querySelector("#rule-`+long+`"); return row.querySelector("td.num a").getBoundingClientRect().top - row.querySelector("a.name").getBoundingClientRect().top })()`); sunk > 12 {
			t.Errorf("at %d px the number of jobs is %v px below the name", width, sunk)
		}
		if over := evaluate[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("at %d px the page is %d px too wide", width, over)
		}
		if hidden := evaluate[[]string](b, `(() => { const edge = document.querySelector(".rules").closest(".card").getBoundingClientRect().right;
			return [...document.querySelectorAll(".rules th")].filter((th) => ["Open alerts", "Status"].includes(th.innerText) && th.getBoundingClientRect().right > edge).map((th) => th.innerText) })()`); len(hidden) > 0 {
			t.Errorf("at %d px %q are out of view", width, hidden)
		}
		b.screenshot(fmt.Sprint("rules-long-", width))
	}
	if strings.Contains(b.text(), "Undetermined") {
		t.Error("undetermined checks have a column")
	}
}
