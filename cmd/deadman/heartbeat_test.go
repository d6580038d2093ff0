package main

import (
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
`))
	testwait.Until(t, "the keys are counted", func() bool {
		page := readJSON[web.HeartbeatPage](n, "heartbeat", "list")
		return page.Counts != nil && page.Counts.NeverReported == 2
	})
	n.expect(0, []string{"heartbeat", "list"}, "up 0, late 0, never reported 2", "never reported  backup", "host    never", "in 23 h", "crm", "shop")
	n.expect(0, []string{"heartbeat", "list", "--state", "late"}, "no keys of heartbeats match these filters")
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
