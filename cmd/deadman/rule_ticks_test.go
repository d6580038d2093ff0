package main

import (
	"strings"
	"testing"

	"deadman/internal/testwait"
	"deadman/web"
)

// TestRuleTicks checks that the applied ticks of a rule are listed as a table and as JSON, by outcome and time.
func TestRuleTicks(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule+"---\nname: import-due\nentity: import\n"+
		"trigger: {schedule: \"@every 1s\", emit: {subject: imports.due}}\n"))
	n.expect(0, []string{"rule", "ticks", "order-unshipped"}, "no ticks")
	var ticks web.Page[web.Tick]
	testwait.Until(t, "two ticks", func() bool {
		ticks = readJSON[web.Page[web.Tick]](n, "rule", "ticks", "import-due")
		return len(ticks.Items) >= 2
	})
	last := ticks.Items[0]
	if last.Outcome != "emitted" || last.Attempts < 1 || !strings.HasPrefix(last.EventID, "import-due-") || !last.Tick.After(ticks.Items[1].Tick) {
		t.Errorf("%+v", ticks.Items)
	}
	n.expect(0, []string{"rule", "ticks", "import-due", "--outcome", "emitted", "--limit", "1"}, "OUTCOME", "emitted", "import-due-", "more results: continue with --cursor")
	n.expect(0, []string{"rule", "ticks", "import-due", "--outcome", "skipped"}, "no ticks match these filters")
	n.expect(0, []string{"rule", "ticks", "import-due", "--to", "-1h"}, "no ticks match these filters")
	n.expect(2, []string{"rule", "ticks", "import-due", "--outcome", "missed"}, "--outcome", "started, emitted, paused, skipped, expired")
	n.expect(1, []string{"rule", "ticks", "none"}, "not found")
}
