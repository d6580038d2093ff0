package ui_test

import (
	"strings"
	"testing"
	"time"
)

// TestLostNode checks that an open page tells that its node is gone, and shows the node's state again once it is back.
func TestLostNode(t *testing.T) {
	t.Parallel()
	c := config(t.TempDir())
	home, stop := run(t, c)
	callAPI(t, home, "POST", "/rules", "application/yaml", orders, nil)
	send(t, home, "orders.created", `{"id": "1", "total": 7}`)
	waitForOpenAlerts(t, home, 1)
	b := open(t, home, 1200, 900)
	b.stopped = true
	b.visit("/")
	b.waitForText("1 open: 1 warning", "All systems of deadman operational")
	stop()
	gone := time.Now()
	b.waitForText("Not connected to the node since")
	t.Logf("told %.1f s after the node ended", time.Since(gone).Seconds())
	if title := evaluate[string](b, "document.title"); !strings.HasPrefix(title, "Not connected · ") {
		t.Errorf("the title is %q", title)
	}
	if icon := evaluate[string](b, `document.querySelector("link[rel=icon]").href`); !strings.Contains(icon, "888888") {
		t.Errorf("the icon is not grey: %s", icon)
	}
	const headline = `getComputedStyle(document.querySelector(".lead"), "::before").backgroundColor`
	if colour, faint := evaluate[string](b, headline), evaluate[string](b, `getComputedStyle(document.querySelector(".lead")).color`); colour != faint {
		t.Errorf("the headline's dot is %s, and its text %s", colour, faint)
	}
	const raised = `document.querySelector("tr[id^=alert-] time").innerText`
	stopped := evaluate[string](b, raised)
	if later := evaluate[string](b, `new Promise((done) => setTimeout(() => done(`+raised+`), 3000))`); later != stopped {
		t.Errorf("a time continues from %q to %q", stopped, later)
	}
	b.checkAccessibility("a page without its node")
	b.screenshot("lost-node")

	c.HTTPAddr = strings.TrimPrefix(home, "http://")
	run(t, c)
	back := time.Now()
	b.waitForText("1 open: 1 warning", "All systems of deadman operational")
	for deadline := time.Now().Add(within); strings.Contains(b.text(), "Not connected"); pausePoll(b.ctx) {
		if time.Now().After(deadline) {
			t.Fatal("the page does not find the node again")
		}
	}
	t.Logf("found %.1f s after the node served again", time.Since(back).Seconds())
	if title := evaluate[string](b, "document.title"); strings.Contains(title, "Not connected") {
		t.Errorf("the title is %q", title)
	}
}

// TestPageInBackground checks that the title and the icon of a page in a background tab follow the open alerts and the loss
// of the node. A browser shows nothing else of the page.
func TestPageInBackground(t *testing.T) {
	t.Parallel()
	home, stop := run(t, config(t.TempDir()))
	callAPI(t, home, "POST", "/rules", "application/yaml", orders, nil)
	b := open(t, home, 1200, 900)
	b.stopped = true
	b.visit("/")
	b.waitForText("All systems of deadman operational")
	expect := func(title, colour string) {
		t.Helper()
		var got [2]string
		for deadline := time.Now().Add(within); time.Now().Before(deadline); pausePoll(b.ctx) {
			got = evaluate[[2]string](b, `[document.title, document.querySelector("link[rel=icon]").href]`)
			if strings.HasPrefix(got[0], title) && strings.Contains(got[1], "%23"+colour) {
				return
			}
		}
		t.Fatalf("the title is %q with the icon %s, want %q in %s", got[0], got[1], title, colour)
	}
	expect("All systems of deadman operational", "17713f")
	evaluate[bool](b, `Object.defineProperty(document, "hidden", { value: true, configurable: true }) && document.dispatchEvent(new Event("visibilitychange"))`)
	send(t, home, "orders.created", `{"id": "1", "total": 7}`)
	waitForOpenAlerts(t, home, 1)
	expect("1 open: 1 warning", "8a5600")
	if strings.Contains(b.text(), "1 open: 1 warning") {
		t.Error("the page is not in the background: its stream continues")
	}
	stop()
	expect("Not connected · 1 open: 1 warning", "888888")
}
