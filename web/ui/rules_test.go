package ui_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// several are rules of all kinds.
var several = []string{orders, `name: refund-unconfirmed
description: A refund was asked for and the provider did not confirm it.
entity: refund
trigger: {event: refunds.requested, key: event.id}
update: {event: refunds.changed, key: event.id}
pause: {event: refunds.changed, key: event.id, if: event.status == "HELD"}
resolve:
  - {event: provider.refunds.confirmed, key: event.id}
  - {event: provider.refunds.rejected, key: event.id, as: rejected}
escalate:
  - {after: 2h, step: ask, severity: info, text: "refund {{key}}: ask"}
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

// rulePages are the pages about rules.
var rulePages = []string{
	"/rules", "/rules?text=nothing-like-it", "/rules/order-unshipped", "/rules/refund-unconfirmed", "/rules/device-silent", "/rules/import-missing",
	"/rules/refund-unconfirmed/versions", "/rules/refund-unconfirmed/edit", "/rules/order-unshipped/send", "/new-rule", "/new-rule?from=ticket-unanswered",
}

// The pages about rules have no barrier, fit a window of 400 px, and are there in the dark.
func TestRulePages(t *testing.T) {
	home := serve(t, several...)
	call(t, home, "PUT", "/rules/refund-unconfirmed", "application/yaml", several[1]+"labels: {team: payments}\n", nil)
	call(t, home, "POST", "/rules/device-silent/pause", "application/json", "", nil)
	call(t, home, "POST", "/rules/device-silent/pings", "application/json", `{"key": "pump-7"}`, nil)
	send(t, home, "orders.created", `{"id": "1", "total": 12.5}`)
	send(t, home, "refunds.requested", `{"id": "r-1"}`)
	for _, width := range []int64{1400, 400, 1600} {
		b := open(t, home, width, 900)
		for i, path := range rulePages {
			b.dark(width == 400 && i%2 == 1 || width == 1600)
			b.visit(path)
			if path == "/rules/refund-unconfirmed/edit" {
				b.shows("by-hand")
			}
			b.shoot(fmt.Sprintf("rules-%d-%s", width, url.PathEscape(path)))
			if width != 1600 {
				b.accessible(fmt.Sprintf("%s at %d px", path, width))
			}
			if wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
				t.Errorf("%s is %d px too wide for %d px", path, wide, width)
			}
		}
	}
}

// Two people change a rule: the second is told what the first did, and nothing is lost.
func TestConflict(t *testing.T) {
	home := serve(t, orders)
	b := open(t, home, 1200, 900)
	b.visit("/rules/order-unshipped/edit")
	b.shows("What would happen")
	call(t, home, "PUT", "/rules/order-unshipped", "application/yaml", strings.Replace(orders, "total}}) is", "total}} EUR) is", 1), nil)
	evaluate[any](b, `document.getElementById("text").value += "early: 2h\n"`)
	b.refused = "412"
	b.click("button.main")
	b.shows("Somebody saved version 2 while you wrote: loopback", "What they changed", "total}} EUR) is", "What saving would change of theirs", "+early: 2h")
	if mine := evaluate[string](b, `document.getElementById("text").value`); !strings.Contains(mine, "early: 2h") || strings.Contains(mine, "EUR") {
		t.Errorf("what was written is %s", mine)
	}
	b.accessible("a conflict")
	b.shoot("rules-conflict")
	b.click("button.main") // and now it replaces what they saved
	b.shows("What the newest version changed", "+early: 2h", "3, saved")
}
