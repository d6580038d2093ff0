package main

import (
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestHistoryOutcomes checks that outcomes are listed by time, most frequent first, and filtered by rule.
func TestHistoryOutcomes(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule))
	for _, key := range []string{"1", "2"} {
		n.mustRun("job", "create", "order-unshipped", key)
		n.mustRun("job", "cancel", "order-unshipped", key, "-y")
	}
	testwait.Until(t, "they are counted", func() bool {
		o := readJSON[web.Outcomes](n, "history", "outcomes", "--days", "--rule", "order-unshipped")
		return len(o.Items) == 14 && o.Items[13].Outcomes["cancelled"] == 2
	})
	n.expect(0, []string{"history", "outcomes"}, "cancelled 2")
	n.expect(0, []string{"history", "outcomes", "--days"}, "cancelled 2", " UTC")
	n.expect(0, []string{"history", "outcomes", "--entity", "other"}, "no job ended since")
	if shown := howEnded(map[string]int64{"a": 1, "b": 3, "c": 1}); shown != "b 3, a 1, c 1" {
		t.Errorf("the most come first: %s", shown)
	}
	if shown := n.mustRun("history", "outcomes"); strings.Contains(shown, "0.0 ms") {
		t.Errorf("a job without a check is listed as slow:\n%s", shown)
	}
}
