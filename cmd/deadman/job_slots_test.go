package main

import (
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// TestSlots checks that pending jobs are drawn in the bucket of their slot, and that invalid flags are reported.
func TestSlots(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule))
	n.mustRun("job", "create", "order-unshipped", "1")
	job := readJSON[web.Job](n, "job", "get", "order-unshipped", "1")
	from, to := job.NextCheckAt.Add(-time.Hour).Format(time.RFC3339), job.NextCheckAt.Add(time.Hour).Format(time.RFC3339)

	planned := int64(0)
	slots := readJSON[web.Slots](n, "job", "slots", "--from", from, "--to", to, "--bucket", "15m")
	for _, s := range slots.Items {
		if s.Planned > 0 && (job.NextCheckAt.Before(s.From) || !job.NextCheckAt.Before(s.From.Add(15*time.Minute))) {
			t.Errorf("a job that is due at %s is in the bucket from %s", job.NextCheckAt, s.From)
		}
		planned += s.Planned
	}
	if planned != 1 || slots.Bucket != 900 {
		t.Errorf("%d jobs in buckets of %v s, want one in 900 s", planned, slots.Bucket)
	}
	n.expect(0, []string{"job", "slots", "--from", from, "--to", to, "--rule", "order-unshipped"}, "1 "+strings.Repeat(plannedMark, 1), "planned")
	n.expect(2, []string{"job", "slots", "--bucket", "7m"}, "--bucket", "divide a day")
	n.expect(2, []string{"job", "slots", "--from", "yesterday"}, "--from", "15:04")
}

// TestBars checks that the longest bar fits, and that tiny parts are visible.
func TestBars(t *testing.T) {
	p := &cli{}
	slots := []web.Slot{{Checks: 1_000_000}, {Checks: 1, Planned: 1, Ticks: 1}, {Planned: 500_000}}
	scale := scaleOf(slots, 80)
	for i, want := range []string{strings.Repeat(workedMark, 40), workedMark + plannedMark + ticksMark, strings.Repeat(plannedMark, 20)} {
		if got := slotBar(p, slots[i], scale); got != want {
			t.Errorf("%+v is %q, want %q", slots[i], got, want)
		}
	}
	if got := scaleOf(slots[1:2], 0); got != 1 {
		t.Errorf("a few jobs are drawn with %v letters each", got)
	}
}
