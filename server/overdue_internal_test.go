package server

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"deadman/checks"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// Jobs with slow checks do not hide the overdue jobs behind them, regardless of their number.
func TestSlowJobsDoNotHideOverdueJobs(t *testing.T) {
	w := &detectorFixture{T: t, dir: storetest.DataDir(t), line: "S"}
	var err error
	w.store, err = store.Open(t.Context(), store.Options{DataDir: w.dir, Shards: 1, Log: slog.New(slog.DiscardHandler)})
	w.failOn(err)
	defer func() { w.failOn(w.store.Close()) }()
	var own checks.Handlers
	w.failOn(own.Register("slow", checks.HandlerFunc(func(context.Context, checks.Check) (checks.Answer, error) { return checks.Answer{}, nil })))
	patient := w.saveRule("name: patient\nentity: order\ntrigger: {event: orders.created, key: event.id}\nhandler: slow\nguards: {timeout: 5m}\n")
	prompt := w.saveRule(everyMinute)
	catalog := rules.NewCatalog(w.store, 1)
	catalog.Handlers = &own
	w.failOn(catalog.Refresh(t.Context()))

	now, err := w.store.Now(t.Context())
	w.failOn(err)
	insert := func(n int, of rules.RuleVersion, late time.Duration) {
		w.exec(fmt.Sprintf(`WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d)
INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at)
SELECT 0, %d, %d, 'k' || n, %[4]d, %[4]d, %[4]d, %[4]d FROM i`, n, of.RuleID, of.Version, now.Add(-late).UnixMicro()))
	}
	load := func() backlog {
		t.Helper()
		b, err := (&overdue{store: w.store, catalog: catalog, now: func() time.Time { return now }, after: overdueAfter}).find(t.Context())
		w.failOn(err)
		return b
	}
	insert(5000, patient, 3*time.Minute)
	if b := load(); b.jobs() > 0 {
		t.Errorf("while all may be late, %d are overdue", b.jobs())
	}
	insert(3, prompt, 2*time.Minute)
	if b := load(); b.jobs() != 3 || b.parts[0].RuleID != prompt.RuleID {
		t.Errorf("behind 5000 that may be late: %+v, want 3 jobs", b)
	}
	now = now.Add(4 * time.Minute)
	if b := load(); b.jobs() < 3 || !b.more || len(b.parts) == 0 || b.parts[0].RuleID != patient.RuleID {
		t.Errorf("once they took longer than they may: %+v", b)
	}
}

// Jobs that wait for a tenants' line that is behind are late by the fault of tenants: an alert names the line, and the
// node is neither behind nor has it overdue jobs. On the operator's line it is both.
func TestLaggingTenantLineDoesNotFailNode(t *testing.T) {
	for line, isTenants := range map[string]bool{"S": false, "S/tenants": true} {
		runDetectorOn(t, line, everyMinute, func(w *detectorFixture) {
			w.createJobs(4)
			w.advance(28 * time.Minute)
			stuck := time.Now()
			w.caughtUp = func() time.Time { return stuck }
			w.advance(4 * time.Minute)
			if is := len(w.overdueJobs().parts) == 0; is != isTenants {
				t.Errorf("%s: overdue: %+v", line, w.overdueJobs())
			}
			if is := w.sweeper.OwnLag() <= maxSweepLag; is != isTenants {
				t.Errorf("%s: the node is %s behind", line, w.sweeper.OwnLag())
			}
			listed := w.listAlerts()
			if len(listed) != 1 || listed[0].Key != "ingest/"+line || listed[0].Labels["stream"] != "S" || (listed[0].Labels["line"] == "tenants") != isTenants {
				t.Errorf("%s: alerts: %+v", line, listed)
			}
			w.caughtUp = time.Now
			w.advance(2 * time.Minute)
			if _, resolved := w.gapAlerts("ingest/" + line); resolved.Count != 4 {
				t.Errorf("%s: %d jobs were late, want 4", line, resolved.Count)
			}
		})
	}
}
