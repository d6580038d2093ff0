package store_test

import (
	"slices"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
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
