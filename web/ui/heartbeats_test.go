package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"deadman/web"
)

// TestHeartbeatPage checks that the page of heartbeats lists keys by state, with the counts and filters, fits a narrow window
// and is accessible, and that the page of the rule shows a badge.
func TestHeartbeatPage(t *testing.T) {
	t.Parallel()
	home := serve(t, "name: backup\nentity: host\ntrigger: {heartbeat: {every: 24h, grace: 1h, keys: [crm, shop]}}\nslot: 1s\n",
		"name: quiet\nentity: host\ntrigger: {heartbeat: {every: 1h}}\n")
	ping := func(key, kind string) { sendPing(t, home, "backup", key, kind) }
	b := open(t, home, 1440, 900)
	b.visit("/heartbeats")
	b.waitForText("All 2", "Never reported 2", "host crm", "never reported", "none", "Never reported: quiet")
	b.visit("/entities/host?key=crm")
	b.waitForText("No signal yet; expected since")
	b.visit("/heartbeats")
	ping("shop", "")
	ping("crm", "/fail")
	b.waitForText("Late or failed 1", "Up 1", "failed", "100 %", "failed; the ping had no body with the reason")
	b.visit("/entities/host?key=crm")
	b.waitForText("Last run failed", "run failed", "failed; the ping had no body with the reason")
	if text := b.text(); strings.Contains(text, "No ping") {
		t.Errorf("a ping came, and the page shows:\n%s", text)
	}
	ping("crm", "/5")
	b.waitForText("failed with exit status 5")
	b.visit("/heartbeats")
	b.waitForText("Late or failed 1", "Up 1", "failed with exit status 5")
	if first := evaluate[string](b, `document.querySelector(".beats tbody tr").innerText`); !strings.Contains(first, "host crm") || strings.Contains(first, "late") {
		t.Errorf("the first row is %q, want the failed key", first)
	}
	for _, width := range []int64{1440, 400} {
		for _, dark := range []bool{false, true} {
			b.resize(width, 900)
			b.setDarkMode(dark)
			b.checkAccessibility("the keys of heartbeats")
			if over := evaluate[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("at %d px the page is %d px too wide", width, over)
			}
			b.screenshot("heartbeats-" + map[bool]string{false: "light", true: "dark"}[dark] + map[int64]string{1440: "", 400: "-narrow"}[width])
		}
	}
	b.resize(1440, 900)
	b.setDarkMode(false)
	b.visit("/heartbeats?state=late")
	b.waitForText("host crm")
	if text := b.text(); strings.Contains(text, "host shop") {
		t.Errorf("only late keys were asked for, and the page shows:\n%s", text)
	}
	b.visit("/heartbeats?key=sh*")
	b.waitForText("host shop")
	callAPI(t, home, "DELETE", "/jobs/backup/shop", "", "", nil)
	b.visit("/heartbeats")
	b.waitForText("Not watched: backup shop. The rule expects this key, and its job was ended.")
	b.screenshot("heartbeats-unwatched")
	ping("shop", "")
	b.waitForText("Up 1", "host shop")

	checkPingBodies(t, b, home)
	b.visit("/rules/backup")
	b.click(`button[value="badge"]`)
	b.waitForText("whole rule", "/badge/", "![heartbeat](http://")
	if shown := evaluate[int](b, `document.querySelector("#badges ~ .card img").naturalWidth`); shown < 50 {
		t.Errorf("the badge is %d px wide", shown)
	}
	b.checkAccessibility("a badge")
	b.screenshot("badge")
	b.click(`button[value="unbadge"]`)
	b.waitForText("Revoke all badges of rule backup?")
	b.click(`button.grave`)
	b.waitForText("All badges of the rule are revoked.")
}

// sendPing sends a ping of a kind, such as /fail, to the URL of a key.
func sendPing(t *testing.T, home, rule, key, kind string) {
	t.Helper()
	var address web.PingAddress
	callAPI(t, home, "POST", "/rules/"+rule+"/pings", "application/json", `{"key": "`+key+`"}`, &address)
	if reply, err := http.Get(home + strings.TrimPrefix(address.URL, home) + kind); err != nil || reply.Body.Close() != nil || reply.StatusCode != 200 {
		t.Fatalf("ping: %v %v", reply, err)
	}
}

// TestLateKeysComeFirst checks that the late keys are above the first page of many keys, with a link to all of them.
func TestLateKeysComeFirst(t *testing.T) {
	t.Parallel()
	keys := make([]string, 60)
	for i := range keys {
		keys[i] = fmt.Sprintf("k-%02d", i)
	}
	home := serve(t, "name: backup\nentity: host\ntrigger: {heartbeat: {every: 24h, keys: ["+strings.Join(keys, ", ")+"]}}\nslot: 1s\n")
	sendPing(t, home, "backup", "k-59", "/fail")
	b := open(t, home, 1440, 900)
	b.visit("/heartbeats")
	b.waitForText("All keys", "Next page", "host k-59", "host k-00")
	if late := evaluate[string](b, `document.querySelector("#late + .card").innerText`); !strings.Contains(late, "host k-59") || strings.Contains(late, "host k-00") || strings.Contains(b.text(), "All of them") {
		t.Errorf("the late keys are %q", late)
	}
	b.checkAccessibility("late keys above all keys")
	b.screenshot("heartbeats-late-first")
	b.visit("/heartbeats?state=never_reported")
	b.waitForText("host k-00")
	if strings.Contains(b.text(), "host k-59") {
		t.Error("a filtered list has the late keys")
	}
}

// checkPingBodies checks that the rule's page shows the last line of the body of a failed ping, and the whole body on
// request.
func checkPingBodies(t *testing.T, b *tab, home string) {
	t.Helper()
	var address web.PingAddress
	callAPI(t, home, "POST", "/rules/backup/pings", "application/json", `{"key": "crm"}`, &address)
	for _, send := range [][2]string{{"/3", "dumping <b>crm</b>\npg_dump: connection refused\n"}, {"/log", strings.Repeat("x", 12_000)}, {"", "done"}} {
		reply, err := http.Post(home+strings.TrimPrefix(address.URL, home)+send[0], "text/plain", strings.NewReader(send[1]))
		if err != nil || reply.Body.Close() != nil || reply.StatusCode != 200 {
			t.Fatalf("ping: %v %v", reply, err)
		}
	}
	for deadline := time.Now().Add(within); ; pausePoll(t.Context()) { // the log is written in batches
		var log web.Page[web.PingEntry]
		callAPI(t, home, "GET", "/rules/backup/pings/log?key=crm", "", "", &log)
		if len(log.Items) == 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log has %d pings, want 5", len(log.Items))
		}
	}
	b.visit("/rules/backup")
	b.waitForText("fail exit 3", "pg_dump: connection refused", "done")
	if strings.Contains(b.text(), "dumping") {
		t.Error("the whole body is open")
	}
	evaluate[any](b, `document.querySelectorAll("td details summary").forEach((e) => e.click())`)
	b.waitForText("dumping <b>crm</b>", "2,000 more bytes were not stored.")
	for _, width := range []int64{1440, 400} {
		b.resize(width, 900)
		b.checkAccessibility("the log of pings")
		if over := evaluate[int](b, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
			t.Errorf("at %d px the page is %d px too wide", width, over)
		}
		b.do(chromedp.ScrollIntoView(chromedp.CSS("td details")))
		b.screenshot(fmt.Sprintf("pings-log-%d", width))
	}
	b.resize(1440, 900)
}
