package ui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// keys types keys one by one.
func (b *tab) keys(all ...string) {
	b.Helper()
	for _, key := range all {
		b.do(chromedp.KeyEvent(key))
	}
}

// tabTo moves the focus to the element of a selector, and checks that the focus is visible.
func (b *tab) tabTo(selector string) {
	b.Helper()
	for range 200 {
		b.keys("\t")
		if !evaluate[bool](b, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
			b.Errorf("it is not seen that this has the focus: %s", evaluate[string](b, `document.activeElement.outerHTML.slice(0, 120)`))
		}
		if evaluate[bool](b, `document.activeElement.matches('`+selector+`')`) {
			return
		}
	}
	b.Fatalf("%s can't be reached by Tab", selector)
}

// TestByKeyboardAlone checks that Tab, Space and Enter are enough to skip the navigation, choose a job, snooze and
// cancel it, and acknowledge an alert.
func TestByKeyboardAlone(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	send(t, home, "orders.created", `{"id": "1", "total": 1}`)
	send(t, home, "orders.created", `{"id": "2", "total": 1}`)
	waitOpen(t, home, 2)
	b := open(t, home, 1200, 900)
	b.visit("/jobs")
	b.keys("\t")
	if !evaluate[bool](b, `document.activeElement.matches("a.skip") && document.activeElement.getBoundingClientRect().left >= 0`) {
		t.Error("the first Tab does not show how to skip to the content")
	}
	b.keys("\r")
	if !evaluate[bool](b, `document.activeElement.id === "main"`) {
		t.Error("skipping does not lead to the content")
	}
	b.tabTo(`input[name=job][value$="/1"]`)
	b.keys(" ")
	b.tabTo(`button[value=snooze]`)
	b.keys("\r")
	b.shows("1 job was snoozed.")
	b.tabTo(`input[name=job][value$="/2"]`)
	b.keys(" ")
	b.tabTo(`button[value=cancel]`)
	b.keys("\r")
	b.shows("Cancel 1 job?")
	b.tabTo(`button.grave`)
	b.keys("\r")
	b.shows("1 job was cancelled.")

	alert := waitOpen(t, home, 1)[0]
	b.visit("/alerts/" + alert.ID.String())
	b.tabTo(`button[value=ack]`)
	b.keys("\r")
	b.shows("Acknowledged by")
}

// TestNothingMoves checks that no page has running animations.
func TestNothingMoves(t *testing.T) {
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

// TestLiveUpdatesShiftNothing checks that live updates move visible content by less than the perception threshold.
func TestLiveUpdatesShiftNothing(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	for _, id := range []string{"1", "2", "3"} {
		send(t, home, "orders.created", `{"id": "`+id+`", "total": 1}`)
	}
	waitOpen(t, home, 3)
	b := open(t, home, 1200, 900)
	for _, path := range []string{"/", "/jobs", "/health"} {
		b.visit(path)
		evaluate[any](b, `(() => {
  window.shift = 0; window.swaps = 0;
  new PerformanceObserver((l) => { for (const e of l.getEntries()) window.shift += e.value; }).observe({ type: "layout-shift", buffered: true });
  document.addEventListener("htmx:after:swap", () => window.swaps++);
})()`)
		for swaps := range 3 {
			call(t, home, "POST", "/jobs/order-unshipped/2/snooze", "application/json", `{"for": "`+[]string{"3h", "5h", "12h"}[swaps]+`"}`, nil)
			for deadline := time.Now().Add(within); evaluate[int](b, "window.swaps") <= swaps; wait(t.Context()) {
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

// TestNewAlertsWaitForThePointer checks that new alerts move no row under a pointer: they wait, with a note, until
// the pointer leaves the list.
func TestNewAlertsWaitForThePointer(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	begin(t, home, "orders.created", "1")
	waitOpen(t, home, 1)
	b := open(t, home, 1200, 900)
	for i, path := range []string{"/", "/alerts"} {
		b.visit(path)
		b.shows("order 1 ")
		const point = `((at) => at.dispatchEvent(new PointerEvent("pointermove", { bubbles: true })))`
		const place = `document.querySelector("[data-calm] tr[id^=alert-] a").getBoundingClientRect().top`
		evaluate[bool](b, point+`(document.querySelector("[data-calm] td"))`)
		before := evaluate[float64](b, place)
		begin(t, home, "orders.created", []string{"2a", "3a"}[i], []string{"2b", "3b"}[i])
		waitOpen(t, home, 3+2*i)
		b.shows("2 new, shown when you leave the list")
		if after := evaluate[float64](b, place); after != before || strings.Contains(b.text(), []string{"order 2a ", "order 3a "}[i]+"(") {
			t.Errorf("%s: a row under the pointer went from %.0f to %.0f", path, before, after)
		}
		b.accessible("news that wait on " + path)
		b.shoot("calm-" + []string{"now", "alerts"}[i])
		evaluate[bool](b, point+`(document.querySelector("h1"))`)
		b.shows([]string{"order 2a ", "order 3a "}[i]+"(", []string{"order 2b ", "order 3b "}[i]+"(")
		if strings.Contains(b.text(), "when you leave the list") {
			t.Errorf("%s: the news is there, and is said to wait", path)
		}
	}
}

// TestTheFrontPageIsSmall checks that the overview loads less than 150 KB uncompressed.
func TestTheFrontPageIsSmall(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	send(t, home, "orders.created", `{"id": "1", "total": 1}`)
	b := open(t, home, 1200, 900)
	b.visit("/")
	b.shows("order-unshipped")
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
