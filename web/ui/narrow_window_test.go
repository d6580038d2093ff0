package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"deadman/internal/longtest"
	"deadman/web"
)

// TestNarrowWindow checks that a narrow window shows the whole navigation, and that the actions cover no row before a
// job is chosen. Then they take one line at the bottom.
func TestNarrowWindow(t *testing.T) {
	longtest.Only(t, "it measures the layout")
	t.Parallel()
	home := serve(t, orders)
	ids := make([]string, 24)
	for i := range ids {
		ids[i] = fmt.Sprintf("order-%02d", i)
	}
	publishEvents(t, home, "orders.created", ids...)
	waitForOpenAlerts(t, home, len(ids))
	b := open(t, home, 400, 800)
	for _, dark := range []bool{false, true} {
		b.setDarkMode(dark)
		b.visit("/jobs")
		name := fmt.Sprintf("narrow-%v", map[bool]string{true: "dark", false: "light"}[dark])
		b.screenshotVisible(name)
		if unseen := evaluate[int](b, `[...document.querySelectorAll("header nav a")].filter((a) => { const at = a.getBoundingClientRect();
			return at.right > innerWidth || document.elementFromPoint(at.left + at.width / 2, at.top + at.height / 2) !== a; }).length`); unseen > 0 {
			t.Errorf("%d pages of the navigation are not seen", unseen)
		}
		if evaluate[bool](b, `document.querySelector(".actions").getBoundingClientRect().top < innerHeight`) {
			t.Error("the actions cover the rows, and no row is selected")
		}
		b.do(chromedp.Click(chromedp.CSS(`input[aria-label="Select order order-00"]`)))
		if evaluate[bool](b, `(() => { const at = document.querySelector(".actions").getBoundingClientRect(); return at.bottom > innerHeight + 1 || at.height > 60; })()`) {
			t.Error("the actions for the selected rows are out of sight, or take more than a line")
		}
		b.screenshotVisible(name + "-chosen")
		b.checkAccessibility(name)
	}
	b.visit("/")
	b.screenshotVisible("narrow-now")
	b.visit("/nope")
	b.allowedStatus = "404"
	b.screenshotVisible("narrow-nope")
}

// phoneRules are the rules of a node with a row in each list.
func phoneRules() []string {
	return []string{
		orders, strings.Replace(paymentRule, "slot: 1s", "keep: {history: 30d}\nslot: 1s", 1),
		"name: backup-nightly\nentity: backup\ntrigger: {heartbeat: {every: 1s, grace: 0s}}\nescalate: [{after: 0s, step: missing, severity: critical, text: \"the backup of {{key}} is missing\"}]\nslot: 1s\n",
		"name: report-daily\nentity: report\ntrigger: {schedule: \"@stored\", emit: {subject: reports.due}}\n",
	}
}

// phoneNode runs a node with a row in each list.
func phoneNode(t *testing.T) (home string) {
	t.Helper()
	home = serve(t, phoneRules()...)
	callAPI(t, home, "PUT", "/calendars/office", "application/yaml", officeHours, nil)
	callAPI(t, home, "POST", "/mutes", "application/json", `{"match": {"entity": "order"}, "for": "1h", "reason": "the warehouse moves"}`, nil)
	callAPI(t, home, "PUT", "/schedules/report-daily/sales-of-the-north", "application/json", `{"schedule": "0 7 * * 1-5"}`, nil)
	publishEvents(t, home, "orders.created", "order-2026-000017", "order-2026-000018", "order-2026-000019")
	publishEvents(t, home, "payments.asked", "pay_1a2b3c4d5e6f", "pay_2a2b3c4d5e6f")
	for range 3 {
		send(t, home, "orders.created", `{"number": 1}`)
	}
	var address web.PingAddress
	callAPI(t, home, "POST", "/rules/backup-nightly/pings", "application/json", `{"key": "crm-database-primary"}`, &address)
	if reply, err := http.Get(home + strings.TrimPrefix(address.URL, home)); err != nil || reply.Body.Close() != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("ping: %v %v", reply, err)
	}
	waitForOpenAlerts(t, home, 7) // with the one about the refused events
	callAPI(t, home, "DELETE", "/jobs/order-unshipped/order-2026-000019", "", "", nil)
	return home
}

// phoneLists maps each page with a list to the selector of its rows.
var phoneLists = map[string]string{
	"/": "main tbody tr", "/jobs": "main tbody tr", "/alerts": ".group tbody tr", "/alerts/all": ".alerts li", "/heartbeats": "main tbody tr",
	"/rules": "main tbody tr", "/calendars": "main tbody tr", "/history": "#list ~ .card tbody tr", "/mutes": "main tbody tr", "/dead-letters": "tr[id^=letter-]", "/health": ".conditions li", "/rules/report-daily/schedules": "main tbody tr",
	"/rules/order-unshipped/versions": "main tbody tr",
}

// phoneDefects is a script that returns what a page of the width of a phone shows badly.
const phoneDefects = `(() => {
	const wrong = [], limit = innerWidth;
	for (const e of document.querySelectorAll("body *")) {
		const at = e.getBoundingClientRect();
		if (!e.checkVisibility()) continue;
		if (e.matches(".pill") && e.scrollWidth > e.clientWidth + 1) wrong.push("a text runs out of its place: " + e.innerText);
		if (at.width > 0 && at.right > limit + 1 && !e.closest(".hidden, .skip, svg, pre, .cm-editor") && getComputedStyle(e).visibility !== "hidden" && !e.closest("[tabindex='0'].scroll, .ends"))
			wrong.push(Math.round(at.right - limit) + " px are outside of the window: " + e.outerHTML.slice(0, 100));
	}
	const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), range = document.createRange();
	for (let n; (n = walk.nextNode());) {
		if (!n.parentElement.checkVisibility() || n.parentElement.closest(".hidden, svg, pre, textarea, select, .cm-editor, .manual")) continue;
		for (const word of n.data.matchAll(/[a-z0-9]{2,20}/gi)) {
			range.setStart(n, word.index);
			range.setEnd(n, word.index + word[0].length);
			if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) wrong.push("a word is broken: " + word[0]);
		}
	}
	return wrong.slice(0, 5);
})()`

// TestPhone checks that every page fits the width of a phone, and that each list begins on the first screen.
func TestPhone(t *testing.T) {
	t.Parallel()
	home := phoneNode(t)
	var letters web.Page[web.DeadLetter]
	callAPI(t, home, "GET", "/dead-letters", "", "", &letters)
	b := open(t, home, 390, 844)
	for route, addresses := range everyPage(t, waitForOpenAlerts(t, home, 6)[0], letters.Items[0]) {
		path := addresses[0]
		if strings.HasPrefix(route, "/entities/") {
			path = "/entities/order?key=order-2026-000017"
		}
		b.visit(strings.ReplaceAll(path, hostileCalendar, "office"))
		b.screenshotVisible("phone" + url.PathEscape(route))
		for _, w := range evaluate[[]string](b, phoneDefects) {
			t.Errorf("%s: %s", path, w)
		}
	}
	for _, rule := range []string{"order-unshipped", "backup-nightly", "report-daily"} {
		b.visit("/rules/" + rule)
		for _, w := range evaluate[[]string](b, phoneDefects) {
			t.Errorf("rule %s: %s", rule, w)
		}
	}
	for path, rows := range phoneLists {
		b.visit(path)
		b.screenshot("phone-full" + url.PathEscape(path))
		b.screenshotVisible("phone-list" + url.PathEscape(path))
		if end := evaluate[float64](b, `document.querySelector("`+rows+`")?.getBoundingClientRect().bottom ?? -1`); end < 0 || end > 844 {
			t.Errorf("the first row of %s ends at %.0f px of 844", path, end)
		}
		b.checkAccessibility(path + " on a phone")
	}
	b.visit("/alerts?rule=order-unshipped")
	b.do(chromedp.Click(chromedp.CSS(".fold summary")))
	if is := evaluate[string](b, `document.querySelector(".fold summary").innerText + ": " + document.querySelector(".fold input[name=rule]").checkVisibility()`); is != "Filters: rule order-unshipped: true" {
		t.Errorf("the filters are %q", is)
	}
	const bar = `document.querySelector(".tools").getBoundingClientRect().bottom`
	if at := evaluate[float64](b, bar); at != 0 {
		t.Errorf("no alert is selected, and the bar of the inbox ends at %.0f px", at)
	}
	b.do(chromedp.Click(chromedp.CSS("#inbox tbody input")))
	if at := evaluate[float64](b, bar); at < 843 || at > 845 {
		t.Errorf("an alert is selected, and the bar of the inbox ends at %.0f px", at)
	}
	b.checkAccessibility("the inbox on a phone, with a selected alert")
	b.screenshotVisible("phone-selected")
	b.resize(1280, 900)
	if !evaluate[bool](b, `document.querySelector(".fold input[name=rule]").checkVisibility() && !document.querySelector(".fold summary").checkVisibility()`) {
		t.Error("the filters are folded in a wide window")
	}
}

// screenshotVisible saves a screenshot of the visible part of the page if DEADMAN_SHOTS names a folder.
func (b *tab) screenshotVisible(name string) {
	b.Helper()
	folder := os.Getenv("DEADMAN_SHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}
