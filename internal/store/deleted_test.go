package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// TestDeletionWaitsForSettle checks that a deletion is committed after all decisions under the rule, and that no
// decision follows it.
func TestDeletionWaitsForSettle(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	jobs := f.start(2)
	letGo := f.lockJob(jobs[0])
	var after sync.WaitGroup
	after.Go(func() {
		settled, err := f.Settle(t.Context(), f.settlement(jobs[0]))
		if err != nil || !settled.Jobs[jobs[0].ID] {
			t.Errorf("settle: %+v, %v", settled, err)
		}
	})
	f.waitUntil("the settle waits for the job", blockedOn(1, "DELETE FROM future_job"))
	after.Go(func() {
		if _, err := f.Delete(t.Context(), "r", rules.AnyVersion); err != nil {
			t.Errorf("delete: %v", err)
		}
		if page, err := f.History(t.Context(), futurejobs.Filter{}); err != nil || len(page.Items) != 1 {
			t.Errorf("%d jobs had ended when the rule was deleted: %v", len(page.Items), err)
		}
	})
	f.waitUntil("the deletion waits for the settle", blockedOn(1, "UPDATE rule SET revision"))
	letGo()
	after.Wait()
	if _, err := f.Settle(t.Context(), f.settlement(jobs[1])); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("settle after the deletion: %v, want ErrRulesChanged", err)
	}
	if _, err := f.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: f.set, Rules: []int32{f.rule.ID}}); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("apply after the deletion: %v, want ErrRulesChanged", err)
	}
}

// TestDeletedRulesAreReadUntilPurged checks that a deleted rule without jobs is not checked forever.
func TestDeletedRulesAreReadUntilPurged(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 3)
		defer closeStore(t, s)
		l := newLoad(t, s)
		l.create(1)
		_, err := s.Delete(t.Context(), "r", 1)
		l.check(err)
		requests := func() (n int) {
			t.Helper()
			if _, err := s.Deleted(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.check(s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM rule WHERE deleted_at IS NOT NULL AND purged_at IS NULL`).Scan(&n))
			return n
		}
		if requests() != 1 {
			t.Error("a rule with jobs is given up")
		}
		exec(t, s, `DELETE FROM future_job`)
		if requests() != 0 {
			t.Error("a rule without jobs is read again")
		}
	})
}
