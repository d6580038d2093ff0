package store_test

import (
	"sync"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
)

// TestJobsDoNotAppearBehindSweep checks the duration of transactions: a job that appears later than the sweep allows
// would be behind the low-water mark, out of reach of the sweep for minutes. The cursor and the rule keep a transaction
// waiting here, each for less than the statement timeout.
func TestJobsDoNotAppearBehindSweep(t *testing.T) {
	t.Parallel()
	const allowed = 10 * time.Second // as the sweep has it
	f := onPostgres(t, time.Hour)
	f.check(f.OpenCursor(t.Context(), futurejobs.Cursor{Stream: "S"}))
	cursor, err := f.conn().Begin(t.Context())
	f.check(err)
	_, err = cursor.Exec(t.Context(), `SELECT 1 FROM event_cursor WHERE stream = 'S' FOR UPDATE`)
	f.check(err)
	rule, err := f.conn().Begin(t.Context())
	f.check(err)
	_, err = rule.Exec(t.Context(), `SELECT 1 FROM rule FOR UPDATE`)
	f.check(err)

	startedAt := time.Now()
	effect := futurejobs.Effect{Rule: f.rule, Ref: f.ref("k"), Action: futurejobs.Start{
		Job: futurejobs.Job{Version: 1, Since: startedAt, FirstCheckAt: startedAt}, Early: true,
	}}
	var took time.Duration
	var after sync.WaitGroup
	after.Go(func() {
		_, err = f.Apply(t.Context(), futurejobs.EffectBatch{Stream: "S", Last: 1, RuleSet: f.set, Effects: []futurejobs.Effect{effect}})
		took = time.Since(startedAt)
	})
	olderThan := func(age string) string {
		return `SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
	AND wait_event_type = 'Lock' AND now() - xact_start < '` + age + `')`
	}
	f.waitUntil("it waits for the cursor", blockedOn(1, "FROM event_cursor"))
	f.waitUntil("it has waited for a while", olderThan("5s"))
	f.check(cursor.Rollback(t.Context()))
	f.waitUntil("it waits for the rules", blockedOn(1, "FROM rule "))
	f.waitUntil("it waited for too long, or gave up", olderThan("10.5s"))
	f.check(rule.Rollback(t.Context()))
	after.Wait()

	jobs, listErr := f.Jobs(t.Context(), futurejobs.Filter{})
	f.check(listErr)
	for _, j := range jobs.Items {
		if late := took - j.NextCheckAt.Sub(startedAt); late > allowed {
			t.Errorf("a job appeared %s after its slot", late)
		}
	}
	if err == nil && len(jobs.Items) == 0 {
		t.Error("it was applied, and there is no job")
	}
}
