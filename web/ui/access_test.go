package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/internal/longtest"
)

// typeKeys types keys one by one.
func (b *tab) typeKeys(all ...string) {
	b.Helper()
	for _, key := range all {
		b.do(chromedp.KeyEvent(key))
	}
}

// focusByTab moves the focus to the element of a selector, and checks that the focus is visible.
func (b *tab) focusByTab(selector string) {
	b.Helper()
	for range 200 {
		b.typeKeys("\t")
		if !evaluate[bool](b, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			b.Errorf("it is not seen that this has the focus: %s", evaluate[string](b, `document.activeElement.outerHTML.slice(0, 120)`))
		}
		if evaluate[bool](b, `document.activeElement.matches('`+selector+`')`) {
			return
		}
	}
	b.Fatalf("%s can't be reached by Tab", selector)
}

// TestKeyboardOnly checks that Tab, Space and Enter are enough to skip the navigation, choose a job, snooze and
// cancel it, and acknowledge an alert.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	send(t, home, "orders.created", `{"id": "1", "total": 1}`)
	send(t, home, "orders.created", `{"id": "2", "total": 1}`)
	waitForOpenAlerts(t, home, 2)
	b := open(t, home, 1200, 900)
	b.visit("/jobs")
	b.typeKeys("\t")
	if !evaluate[bool](b, `document.activeElement.matches("a.skip") && document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("the first Tab does not show how to skip to the content")
	}
	b.typeKeys("\r")
	if !evaluate[bool](b, `document.activeElement.id === "main"`) {
		t.Error("skipping does not lead to the content")
	}
	b.focusByTab(`input[name=job][value$="/1"]`)
	b.typeKeys(" ")
	b.focusByTab(`button[value=snooze]`)
	b.typeKeys("\r")
	b.waitForText("0 jobs were snoozed; 1 unchanged, as its next check is later.")
	b.focusByTab(`input[name=job][value$="/2"]`)
	b.typeKeys(" ")
	b.focusByTab(`button[value=cancel]`)
	b.typeKeys("\r")
	b.waitForText("Cancel 1 job?")
	b.focusByTab(`button.grave`)
	b.typeKeys("\r")
	b.waitForText("1 job was cancelled.")

	alert := waitForOpenAlerts(t, home, 1)[0]
	b.visit("/alerts/" + alert.ID.String())
	b.focusByTab(`button[value=ack]`)
	b.typeKeys("\r")
	b.waitForText("Acknowledged by")
}

// TestNoRunningAnimations checks that no page has running animations.
func TestNoRunningAnimations(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	b := open(t, home, 1200, 900)
	for _, path := range []string{"/", "/jobs", "/alerts", "/health"} {
		b.visit(path)
		if n := evaluate[int](b, `document.getAnimations().length`); n > 0 {
			t.Errorf("%s: %d animations", path, n)
		}
	}
}

// TestLiveUpdatesKeepLayout checks that live updates move visible content by less than the perception threshold.
func TestLiveUpdatesKeepLayout(t *testing.T) {
	longtest.Only(t, "it measures the layout")
	t.Parallel()
	home := serve(t, orders)
	for _, id := range []string{"1", "2", "3"} {
		send(t, home, "orders.created", `{"id": "`+id+`", "total": 1}`)
	}
	waitForOpenAlerts(t, home, 3)
	b := open(t, home, 1200, 900)
	for _, path := range []string{"/", "/jobs", "/health"} {
		b.visit(path)
		evaluate[any](b, `(() => {
  window.shift = 0; window.swaps = 0;
  new PerformanceObserver((l) => { for (const e of l.getEntries()) window.shift += e.value; }).observe({ type: "layout-shift", buffered: true });
  document.addEventListener("htmx:after:swap", () => window.swaps++);
})()`)
		for swaps := range 3 {
			callAPI(t, home, "POST", "/jobs/order-unshipped/2/snooze", "application/json", `{"for": "`+[]string{"3h", "5h", "12h"}[swaps]+`"}`, nil)
			for deadline := time.Now().Add(within); evaluate[int](b, "window.swaps") <= swaps; pausePoll(t.Context()) {
				if time.Now().After(deadline) {
					t.Fatalf("%s is not live: %d swaps, after %d\n%s", path, evaluate[int](b, "window.swaps"), swaps, b.text())
				}
			}
		}
		// Two frames later the replaced content is drawn, and its shift is counted.
		shift := evaluate[float64](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(window.shift)))))`)
		if shift >= 0.05 {
			t.Errorf("%s shifts by %.3f", path, shift)
		}
	}
}

// TestNewAlertsWaitForPointer checks that new alerts move no row under a pointer: they wait, with a note, until
// the pointer leaves the list.
func TestNewAlertsWaitForPointer(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	publishEvents(t, home, "orders.created", "1")
	waitForOpenAlerts(t, home, 1)
	b := open(t, home, 1200, 900)
	for i, path := range []string{"/", "/alerts"} {
		b.visit(path)
		b.waitForText("order 1 ")
		const point = `((at) => at.dispatchEvent(new PointerEvent("pointermove", { bubbles: true })))`
		const place = `document.querySelector("[data-calm] tr[id^=alert-] a").getBoundingClientRect().top`
		evaluate[bool](b, point+`(document.querySelector("[data-calm] td"))`)
		before := evaluate[float64](b, place)
		publishEvents(t, home, "orders.created", []string{"2a", "3a"}[i], []string{"2b", "3b"}[i])
		waitForOpenAlerts(t, home, 3+2*i)
		b.waitForText("2 new, shown when you leave the list")
		if after := evaluate[float64](b, place); after != before || strings.Contains(b.text(), []string{"order 2a ", "order 3a "}[i]+"(") {
			t.Errorf("%s: a row under the pointer went from %.0f to %.0f", path, before, after)
		}
		b.checkAccessibility("new alerts that wait on " + path)
		b.screenshot("calm-" + []string{"now", "alerts"}[i])
		evaluate[bool](b, point+`(document.querySelector("h1"))`)
		b.waitForText([]string{"order 2a ", "order 3a "}[i]+"(", []string{"order 2b ", "order 3b "}[i]+"(")
		if strings.Contains(b.text(), "when you leave the list") {
			t.Errorf("%s: the alert is there, and the page reports that it waits", path)
		}
	}
}

// TestOverviewSize checks that the overview loads less than 150 KB uncompressed.
func TestOverviewSize(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	send(t, home, "orders.created", `{"id": "1", "total": 1}`)
	b := open(t, home, 1200, 900)
	b.visit("/")
	b.waitForText("order-unshipped")
	all := evaluate[[]struct {
		Name string
		Size float64
	}](b, `[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter((e) => !e.name.includes("live=")).map((e) => ({Name: e.name, Size: e.decodedBodySize}))`)
	sum, scripts := 0.0, 0
	for _, loaded := range all {
		sum += loaded.Size
		if strings.HasSuffix(loaded.Name, ".js") {
			scripts++
		}
	}
	if sum > 150_000 || sum == 0 || scripts < 3 {
		t.Errorf("it loads %.0f bytes: %+v", sum, all)
	}
}
