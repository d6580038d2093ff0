package main

import (
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestForgetCommand checks the refusal of a key with a pending job, and the counts before and after.
func TestForgetCommand(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rule.yaml", `
name: customer-unverified
entity: customer
trigger: {event: customers.signed_up, key: event.email}
resolve: {event: customers.verified, key: event.email}
escalate: [{after: 1h}]
`))
	const key = "erika@example.org"
	n.expect(1, []string{"forget", "client", key, "--yes"}, `no rule has or had the entity "client"`)
	if got := n.mustRun("forget", "customer", key, "--dry-run"); got != "customer "+key+": nothing would be deleted\n" {
		t.Errorf("of an unknown key: %q", got)
	}
	n.mustRun("event", "send", "customers.signed_up", `{"email":"`+key+`"}`)
	testwait.Until(t, "the job is pending", func() bool { return strings.Contains(n.mustRun("job", "list"), key) })
	n.expect(1, []string{"forget", "customer", key, "--yes"}, "1 pending jobs have it; cancel them first")
	n.mustRun("job", "cancel", "customer-unverified", key)

	var counted web.Forgotten
	testwait.Until(t, "the event is read by all lines", func() bool {
		counted = readJSON[web.Forgotten](n, "forget", "customer", key, "--dry-run")
		return counted.UnreadEvents == 0
	})
	if counted.Jobs != 1 || counted.Events != 1 || counted.AuditEntries != 1 || counted.Pseudonym != "" {
		t.Errorf("dry run: %+v", counted)
	}
	done := n.mustRun("forget", "customer", key, "--yes")
	if !strings.HasPrefix(done, "customer "+key+": 1 job and 1 stored event deleted\naudit log: forgotten-") {
		t.Errorf("done: %q", done)
	}
	for _, list := range [][]string{{"history", "list"}, {"token", "audit"}} {
		if got := n.mustRun(list...); strings.Contains(got, key) {
			t.Errorf("%v has it:\n%s", list, got)
		}
	}
}
