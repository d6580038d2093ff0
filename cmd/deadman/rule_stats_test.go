package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"deadman/web"
)

// TestRuleStats checks that jobs in time, late and never are printed with the time they took, and that uncounted times are
// named.
func TestRuleStats(t *testing.T) {
	t.Parallel()
	n := newInProcessNode(t)
	n.mustRun("rule", "apply", "-f", writeFile(t, t.TempDir(), "rules.yaml", goodRule))
	n.expect(0, []string{"rule", "stats", "order-unshipped"}, "nothing is counted yet")
	if s := readJSON[web.RuleStatistics](n, "rule", "stats", "order-unshipped", "--window", "month"); s.Window != "month" || s.Bucket != 86400 {
		t.Errorf("%+v", s)
	}
	n.expect(2, []string{"rule", "stats", "order-unshipped", "--window", "year"}, "--window", "day, week, month")
	n.expect(1, []string{"rule", "stats", "none"}, "not found")
	n.expect(0, []string{"history", "stats", "--entity", "order", "--window", "week"}, "nothing is counted yet")

	var out, errors bytes.Buffer
	io := newCLI(nil, &out, &errors, nil)
	io.zone = time.UTC
	to := time.Date(2026, 3, 2, 15, 0, 0, 0, time.UTC)
	p50, p95 := 5400.0, 183600.0
	s := web.Statistics{
		Window: "day", From: to.Add(-24 * time.Hour), To: to, CountedFrom: to.Add(-5 * time.Hour), InTime: 12, Late: 3, Never: 1, P50: &p50, P95: &p95, Bucket: 3600,
		Items: []web.StatisticsBucket{{From: to.Add(-24 * time.Hour)}, {From: to.Add(-2 * time.Hour), InTime: 12, Late: 3}, {From: to.Add(-time.Hour), Never: 1}},
	}
	none := web.Statistics{From: s.From, To: to, Items: s.Items[:1]}
	if err := printStatistics(io, none); err != nil || !strings.Contains(out.String(), "the next count is at about 2026-03-02 16:05:00 UTC") || strings.Contains(out.String(), "in time 0") {
		t.Errorf("nothing counted: %q, %v", &out, err)
	}
	out.Reset()
	if err := printStatistics(io, s); err != nil {
		t.Fatal(err)
	}
	want := `jobs ended from 2026-03-01 15:00:00 UTC to 2026-03-02 15:00:00 UTC
in time 12, late 3, never 1
time to resolve: p50 1h30m, p95 2d3h

FROM                  IN TIME  LATE  NEVER
Mon 2026-03-02 13:00  12       3     0
Mon 2026-03-02 14:00  0        0     1
`
	if out.String() != want || !strings.Contains(errors.String(), "before 2026-03-02 10:00:00 UTC are not counted") {
		t.Errorf("printed\n%s%s", &out, &errors)
	}
}
