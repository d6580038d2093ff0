package main

import (
	"net/http"
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestHeartbeatList checks that keys are listed with their state, the counts above them, and that badges are created and
// revoked.
func TestHeartbeatList(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.expect(0, []string{"heartbeat", "list"}, "no keys of heartbeats")
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", `name: backup
entity: host
trigger: {heartbeat: {every: 1d, keys: [crm, shop]}}
slot: 1s
`))
	testwait.Until(t, "the keys are counted", func() bool {
		page := readJSON[web.HeartbeatPage](n, "heartbeat", "list")
		return page.Counts != nil && page.Counts.NeverReported == 2
	})
	n.expect(0, []string{"heartbeat", "list"}, "up 0, late 0, never reported 2", "never reported  backup", "host    never", "in 23 h", "crm", "shop")
	failed, err := http.Post(strings.TrimSpace(n.mustRun("rule", "pings", "backup", "--key", "shop"))+"/3", "text/plain", strings.NewReader("disk full"))
	if err != nil || failed.StatusCode != http.StatusOK || failed.Body.Close() != nil {
		t.Fatalf("ping: %v, %+v", err, failed)
	}
	testwait.Until(t, "the failed key is late", func() bool {
		items := readJSON[web.HeartbeatPage](n, "heartbeat", "list", "--state", "late").Items
		return len(items) == 1 && items[0].Failure == "failed with exit status 3: disk full"
	})
	if got := n.mustRun("heartbeat", "list"); !strings.Contains(got, "failed ") || strings.Contains(got, "late for") || strings.Index(got, "shop") > strings.Index(got, "crm") {
		t.Errorf("a failed run is listed as\n%s", got)
	}
	n.expect(0, []string{"heartbeat", "list", "--key", "none", "--state", "late"}, "no keys of heartbeats match these filters")
	n.expect(0, []string{"job", "list", "--rule", "backups"}, "no pending jobs match these filters", "no rule is named backups; did you mean backup?")
	if got := n.run("", "alert", "list", "--rule", "deadman"); got.code != 0 || strings.Contains(got.err, "no rule is named") {
		t.Errorf("the rule of deadman's own alerts: %+v", got)
	}
	calendar := writeFile(t, t.TempDir(), "calendars.yaml", "calendars:\n  always:\n    zone: UTC\n    days: mon-sun\n    hours: 00:00-24:00\n")
	n.expect(0, []string{"calendar", "apply", "-f", calendar})
	if got := n.run("", "calendar", "list"); got.code != 0 || !strings.Contains(got.out, "open") || strings.Contains(got.out, "ago  ") || strings.Contains(got.out, "-92233") {
		t.Errorf("a calendar that never closes: %+v", got)
	}
	n.expect(2, []string{"heartbeat", "list", "--state", "down"}, "--state", "never_reported")
	n.expect(0, []string{"heartbeat", "badge", "backup", "--key", "crm"}, "http://", "/badge/", ".svg")
	if got := n.run("", "heartbeat", "badge", "backup", "--key", "crm"); got.err != "" {
		t.Errorf("a badge of a declared key: %q", got.err)
	}
	if got := n.run("", "heartbeat", "badge", "backup", "--key", "cmr"); got.code != 0 || !strings.Contains(got.out, "/badge/") || !strings.Contains(got.err, "warning: rule backup watches no key cmr") {
		t.Errorf("a badge of a misspelled key: %+v", got)
	}
	n.expect(2, []string{"heartbeat", "badge", "backup", "--key", "crm", "--revoke"}, "remove --key")
	n.expect(0, []string{"heartbeat", "badge", "backup", "--revoke"}, "revoked: all badges of rule backup")
	n.expect(1, []string{"heartbeat", "badge", "backup", "--revoke"}, "has no badges")
}

// A person who closes the alert of a heartbeat, or creates a job, reports nothing: the key is watched on, and its state is not up.
func TestClosedHeartbeatIsWatchedAgain(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", `name: backup
entity: host
trigger: {heartbeat: {every: 1s, keys: [crm]}}
slot: 1s
`))
	ping, err := http.Post(strings.TrimSpace(n.mustRun("rule", "pings", "backup", "--key", "mail")), "text/plain", nil)
	if err != nil || ping.StatusCode != http.StatusOK || ping.Body.Close() != nil {
		t.Fatalf("ping: %v, %+v", err, ping)
	}
	stateOf := func(key string) (is web.Heartbeat) {
		for _, h := range readJSON[web.HeartbeatPage](n, "heartbeat", "list", "--rule", "backup").Items {
			if h.Key == key {
				is = h
			}
		}
		return is
	}
	alertsOf := func() int {
		return len(readJSON[web.Page[web.Alert]](n, "alert", "list", "--rule", "backup", "--key", "crm", "--status", "firing").Items)
	}
	old := func() string {
		all := readJSON[web.Page[web.Alert]](n, "alert", "list", "--rule", "backup", "--key", "crm", "--status", "firing").Items
		return all[len(all)-1].ID.String()
	}
	for raised := 1; raised <= 2; raised++ {
		testwait.Until(t, "the key is late", func() bool { return alertsOf() == raised && stateOf("crm").State == "late" })
		n.expect(0, []string{"alert", "close", "backup", "crm", "--reason", "known"}, "closed")
		if h := stateOf("crm"); h.State == "up" || !h.ReportedAt.IsZero() {
			t.Errorf("after the close: %+v", h)
		}
	}
	n.expect(1, []string{"alert", "snooze", old(), "--for", "1h"}, "is over, and its job has ended")
	testwait.Until(t, "the key that reported is late", func() bool { return stateOf("mail").State == "late" })
	reported := stateOf("mail").ReportedAt
	n.expect(0, []string{"alert", "close", "backup", "mail", "--reason", "known"}, "closed")
	if h := stateOf("mail"); h.State != "unknown" || reported.IsZero() || !h.ReportedAt.Equal(reported) {
		t.Errorf("after the close of a key that reported at %s: %+v", reported, h)
	}
	testwait.Until(t, "the key that reported is late again", func() bool { return stateOf("mail").State == "late" })
	n.expect(0, []string{"alert", "list", "--rule", "backup", "--key", "mail"}, "no heartbeat since "+reported.Format("15:04:05"))
	n.expect(0, []string{"job", "cancel", "backup", "crm"})
	testwait.Until(t, "the key is listed as not watched", func() bool {
		page := readJSON[web.HeartbeatPage](n, "heartbeat", "list", "--rule", "backup")
		return len(page.Unwatched) == 1 && page.Unwatched[0] == web.UnwatchedKey{Rule: "backup", Key: "crm"}
	})
	n.expect(0, []string{"heartbeat", "list"}, "expected keys that nothing watches, as their job was ended: backup crm")
	n.expect(0, []string{"heartbeat", "list", "--key", "mail"}, "backup")
	n.expect(0, []string{"job", "create", "backup", "crm"})
	testwait.Until(t, "the key is watched", func() bool {
		return len(readJSON[web.HeartbeatPage](n, "heartbeat", "list", "--rule", "backup").Unwatched) == 0
	})
	n.expect(0, []string{"job", "create", "backup", "shop"})
	if h := stateOf("shop"); h.State == "up" || !h.ReportedAt.IsZero() {
		t.Errorf("a job by hand: %+v", h)
	}
}
