package ui_test

import (
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// TestDeletedRule checks that the confirmation of a deletion describes its effect: jobs end, alerts are no longer
// open, and no notification is sent. Afterwards the address reports the deletion and links to the remaining data.
func TestDeletedRule(t *testing.T) {
	t.Parallel()
	home := serve(t, orders)
	publishEvents(t, home, "orders.created", "1", "2")
	waitForOpenAlerts(t, home, 2)
	b := open(t, home, 1400, 900)
	b.visit("/rules/order-unshipped")
	b.waitForText("2 pending", "2 open alerts")
	b.click("button[value=delete]")
	b.waitForText("2 jobs end, and 2 open alerts are closed without notifications. History and versions are kept.")
	b.checkAccessibility("deleting a rule")
	b.screenshot("rule-deleting")

	// A newer version is not deleted, and the error links to it.
	callAPI(t, home, "PUT", "/rules/order-unshipped", "application/yaml", orders+"labels: {team: shop}\n", nil)
	b.allowedStatus = "412"
	b.click("button.grave")
	b.waitForText("The rule was not deleted")
	b.screenshot("rule-not-deleted")
	b.click(`a[href="/rules/order-unshipped"]`)
	b.waitForText("Changes in the newest version")
	b.click("button[value=delete]")
	b.click("button.grave")
	b.waitForText("No rules yet")

	waitForOpenAlerts(t, home, 0)
	for _, path := range []string{"/alerts?status=resolved", "/alerts?open=true"} {
		var raised web.Page[web.Alert]
		if callAPI(t, home, "GET", path, "", "", &raised); len(raised.Items) > 0 {
			t.Errorf("%s: alerts of a deleted rule: %+v", path, raised.Items)
		}
	}
	for _, path := range []string{"/rules/order-unshipped", "/rules/order-unshipped/edit", "/rules/order-unshipped/send"} {
		status, content := requestPage(t, "GET", home+path, "")
		for _, want := range []string{"Rule order-unshipped was deleted<", "Deleted <time", "by <b><bdi>loopback", `href="/rules/order-unshipped/versions"`, `href="/history?rule=order-unshipped&amp;within=all"`} {
			if status != 404 || strings.Count(content, want) != 1 {
				t.Errorf("%s: %d, and %q is not there once: %s", path, status, want, content)
			}
		}
	}
	b = open(t, home, 400, 900)
	b.setDarkMode(true)
	b.allowedStatus = "404"
	b.visit("/rules/order-unshipped")
	b.checkAccessibility("a deleted rule")
	b.screenshot("rule-deleted")
	b.click(`a[href^="/history"]`)
	for deadline := time.Now().Add(within); strings.Count(b.text(), "rule deleted") < 2; pausePoll(b.ctx) {
		if time.Now().After(deadline) {
			t.Fatalf("its history lacks its jobs:\n%s", b.text())
		}
	}
}
