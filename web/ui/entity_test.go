package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

const parcelRule = `name: parcel-late
description: A parcel was handed over and did not arrive.
entity: parcel
trigger: {event: parcels.sent, key: event.id}
update: {event: parcels.moved, key: event.id}
resolve: {event: parcels.arrived, key: event.id}
while: state.status == "OUT"
escalate:
  - {after: 4s, step: first, severity: warning, text: "parcel {{key}} is late"}
  - {after: 2h, step: second, severity: critical}
  - {every: 24h, times: 3, step: reminder}
recheck: since + seconds(2)
slot: 1s
guards: {max_checks: 100}
`

// waitForTrailEntry waits until the trail of a parcel's job has an entry.
func waitForTrailEntry(t *testing.T, home, key string, has func(web.TrailEntry) bool) {
	t.Helper()
	for deadline := time.Now().Add(within); ; pausePoll(t.Context()) {
		var known web.Entity
		callAPI(t, home, "GET", "/entities/parcel/"+key, "", "", &known)
		for _, j := range known.Jobs.Items {
			for _, e := range j.Trail {
				if has(e) {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the trail lacks an entry: %+v", known.Jobs.Items)
		}
	}
}

// TestEntityPage checks the page of an entity: the missing event, the values and decision of each check, the alerts with
// their deliveries, and past jobs.
func TestEntityPage(t *testing.T) {
	t.Parallel()
	home := serve(t, parcelRule)
	send(t, home, "parcels.sent", `{"id": "7", "status": "OUT"}`)
	send(t, home, "parcels.arrived", `{"id": "7"}`)
	send(t, home, "parcels.sent", `{"id": "7", "status": "OUT", "note": "second \u202etry"}`)
	waitForTrailEntry(t, home, "7", func(e web.TrailEntry) bool { return e.Step == "first" })
	send(t, home, "parcels.moved", `{"id": "7", "status": "OUT", "hub": "Ulm"}`)
	waitForTrailEntry(t, home, "7", func(e web.TrailEntry) bool { return e.Kind == "update" })
	callAPI(t, home, "POST", "/jobs/parcel-late/7/snooze", "application/json", `{"for": "1h"}`, nil)

	b := open(t, home, 1400, 900)
	b.visit("/entities/parcel?key=7")
	b.waitForText("No parcels.arrived: started", "next check in", "snoozed", "next alert: ",
		"no step due", "next check", `state.status = "OUT"`, "parcel 7 is late", "published", "updated", "parcels.moved", "snoozed", "started", "Past jobs", "resolved")
	if n := strings.Count(b.text(), `parcel 7 is late`); n != 1 {
		t.Errorf("the alert is there %d times", n)
	}
	if shown := evaluate[bool](b, `document.querySelector(".past .story").checkVisibility()`); shown {
		t.Error("a past job is not collapsed")
	}
	if body := evaluate[string](b, `document.querySelector(".wait details pre").textContent`); !strings.Contains(body, `second \u202etry`) {
		t.Errorf("the event is %s", body)
	}

	// Unfolded details stay unfolded after an update.
	evaluate[any](b, `document.querySelectorAll("details").forEach((d) => { d.open = true }); 0`)
	send(t, home, "parcels.moved", `{"id": "7", "status": "OUT", "hub": "Bonn"}`)
	for deadline := time.Now().Add(within); strings.Count(b.text(), "by parcels.moved") != 2; pausePoll(b.ctx) {
		if time.Now().After(deadline) {
			t.Fatalf("the page is not updated:\n%s", b.text())
		}
	}
	if folded := evaluate[int](b, `document.querySelectorAll("details:not([open])").length`); folded > 0 {
		t.Errorf("%d parts were folded up again", folded)
	}
	for _, width := range []int64{400, 1400, 1600} {
		b := open(t, home, width, 900)
		for _, dark := range []bool{false, true} {
			b.setDarkMode(dark)
			b.visit("/entities/parcel?key=7")
			b.waitForText("No parcels.arrived: started")
			name := fmt.Sprintf("why-%d-%v", width, dark)
			b.checkAccessibility(name)
			b.screenshot(name)
			if wide := evaluate[int](b, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("%s: %d px too wide", name, wide)
			}
		}
	}
}

// TestHandlerWithoutResponder checks that a handler without a responder is reported as unreachable, with the time
// since and the next attempt.
func TestHandlerWithoutResponder(t *testing.T) {
	t.Parallel()
	home := serve(t, "name: parcel-stuck\nentity: parcel\ntrigger: {event: parcels.sent, key: event.id}\nhandler: absent\nslot: 1s\n")
	publishEvents(t, home, "parcels.sent", "7")
	waitForTrailEntry(t, home, "7", func(e web.TrailEntry) bool { return e.Reason != "" })
	b := open(t, home, 1400, 900)
	b.visit("/entities/parcel?key=7")
	b.waitForText("Handler absent is unreachable since", "next attempt", "no service answers on deadman.handlers.absent")
	for _, wrong := range []string{": not resolved", "no further alert"} {
		if strings.Contains(b.text(), wrong) {
			t.Errorf("the page shows %q, and the handler never answered:\n%s", wrong, b.text())
		}
	}
	b.checkAccessibility("a handler without a responder")
	b.screenshot("handler-silent")
}

// TestFailedPingIsQuoted checks that the pages of an alert and of its entity have the last line of the failed ping, cut and
// escaped, and that the answer to a saved heartbeat has the path that creates ping URLs.
func TestFailedPingIsQuoted(t *testing.T) {
	t.Parallel()
	home := serve(t)
	var change web.RuleChange
	callAPI(t, home, "POST", "/rules", "application/yaml", "name: dumps\nentity: dump\ntrigger: {heartbeat: {every: 1d, grace: 1h, keys: [crm]}}\nescalate: [{after: 0s, step: missing, text: no dump}]\nslot: 1s\n", &change)
	var address web.PingAddress
	callAPI(t, home, "POST", strings.TrimPrefix(change.PingsPath, "/api/v1"), "application/json", `{"key": "crm"}`, &address)
	if status, _ := requestPage(t, "POST", home+address.URL+"/1", "first\n<b>refused</b> "+strings.Repeat("x", 400)); status != http.StatusOK {
		t.Fatalf("the ping: %d", status)
	}
	waitForOpenAlerts(t, home, 1)
	var page web.Page[web.Alert]
	callAPI(t, home, "GET", "/alerts?open=true", "", "", &page)
	for _, path := range []string{"/alerts/" + page.Items[0].ID.String(), "/entities/dump?key=crm"} {
		_, content := requestPage(t, "GET", home+path, "")
		if !strings.Contains(content, "The ping sent along: <code><bdi>&lt;b&gt;refused&lt;/b&gt; xxx") || !strings.Contains(content, "xxx…</bdi>") {
			t.Errorf("%s has no line of the ping: %s", path, content)
		}
	}
}
