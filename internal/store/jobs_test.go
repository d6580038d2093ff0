package store_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// TestJobsOfRulesWithManyAndWithFew checks that the jobs of a rule with many in a shard, which are read in another way
// than few, give the same list.
func TestJobsOfRulesWithManyAndWithFew(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 2)
		defer closeStore(t, s)
		l := newLoad(t, s)
		l.create(2500)
		many := l.rule
		saved, err := s.Save(t.Context(), rules.RuleVersion{Name: "rare", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
		l.check(err)
		l.set, err = s.Revision(t.Context())
		l.check(err)
		rare := *many
		rare.ID, rare.Name = saved.RuleID, "rare"
		l.rule = &rare
		l.create(30)
		var decisions []*futurejobs.Decision
		for i, j := range l.due() {
			j.NextCheckAt = j.NextCheckAt.Add(time.Duration(i%7) * time.Minute)
			decisions = append(decisions, &futurejobs.Decision{Job: j})
		}
		_, err = s.Settle(t.Context(), futurejobs.Settlement{Held: l.held, RuleSet: l.set, Decisions: decisions})
		l.check(err)
		all := listed(t, s, futurejobs.Filter{Limit: 500})
		for _, f := range []futurejobs.Filter{
			{Rule: "r"},
			{Rule: "rare"},
			{Entity: "e"},
			{Rule: "r", DueAfter: l.first.Add(time.Minute), DueBefore: l.first.Add(3 * time.Minute)},
			{Rule: "rare", DueAfter: l.first.Add(time.Minute), DueBefore: l.first.Add(3 * time.Minute)},
		} {
			want := slices.DeleteFunc(slices.Clone(all), func(j futurejobs.ListedJob) bool {
				return f.Rule != "" && j.Rule != f.Rule ||
					!f.DueAfter.IsZero() && (j.NextCheckAt.Before(f.DueAfter) || !j.NextCheckAt.Before(f.DueBefore))
			})
			f.Limit = 11
			got := listed(t, s, f)
			if !slices.EqualFunc(want, got, func(a, b futurejobs.ListedJob) bool { return a.ID == b.ID }) || len(want) == 0 {
				t.Errorf("%+v: %d jobs, want %d, or in another order", f, len(got), len(want))
			}
		}
	})
}

func listed(t *testing.T, s *store.Store, f futurejobs.Filter) (jobs []futurejobs.ListedJob) {
	t.Helper()
	for {
		page, err := s.Jobs(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, page.Items...)
		if page.Next == "" {
			return jobs
		}
		f.Cursor = page.Next
	}
}

// TestHistoryIsReadDuringRetention reads the history of SQLite by time while its oldest rows are deleted.
func TestHistoryIsReadDuringRetention(t *testing.T) {
	t.Parallel()
	s := open(t, store.Options{DataDir: storetest.DataDir(t), Shards: 1})
	saved, err := s.Save(t.Context(), rules.RuleVersion{Name: "r", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	const rows, step = 20_000, 50
	begun := time.Now().UTC().Add(-rows * time.Second)
	if _, err := s.DB().ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
INSERT INTO history (seq, shard, id, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, outcome, check_count, step, checks, check_total, check_slowest, ended_at)
SELECT i, 0, i, $2, 1, 'k' || i, $3, $3, $3, $3, 1, 1, 0, 1, 0, 0, $3 + i * 1000000 FROM n`, rows, saved.RuleID, begun.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	var deleting sync.WaitGroup
	var isDeleted atomic.Bool
	deleting.Go(func() {
		defer isDeleted.Store(true)
		for last := step; last <= rows; last += step {
			if _, err := s.DB().ExecContext(t.Context(), `DELETE FROM history WHERE seq <= $1`, last); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for !isDeleted.Load() {
		if _, err := s.History(t.Context(), futurejobs.Filter{After: begun.Add(time.Second)}); err != nil {
			t.Errorf("the history cannot be read: %v", err)
			break
		}
	}
	deleting.Wait()
}
