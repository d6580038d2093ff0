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
	b.waitForText("1 open: 1 warning", "All systems operational")
	stop()
	gone := time.Now()
	b.waitForText("Not connected to the node since")
	t.Logf("told %.1f s after the node ended", time.Since(gone).Seconds())
	if title := evaluate[string](b, "document.title"); !strings.HasPrefix(title, "Not connected · ") {
		t.Errorf("the title is %q", title)
	}
	if icon := evaluate[string](b, `document.querySelector("link[rel=icon]").href`); strings.Contains(icon, "17713f") || !strings.Contains(icon, "888888") {
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
	b.waitForText("1 open: 1 warning", "All systems operational")
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
