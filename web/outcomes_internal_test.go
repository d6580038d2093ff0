package web

import (
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// TestOutcomeCountsOfPastDaysAreCached checks that a past day is counted once: later deletions by retention do not change its
// count. Today is counted each time.
func TestOutcomeCountsOfPastDaysAreCached(t *testing.T) {
	ctx := t.Context()
	s, err := store.Open(ctx, store.Options{DataDir: storetest.DataDir(t), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	saved, err := s.Save(ctx, rules.RuleVersion{Name: "r", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	set, err := s.Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rule := &futurejobs.Rule{ID: saved.RuleID, Version: 1, Name: "r", Entity: "e", Grid: futurejobs.Grid(time.Second)}
	now := time.Now()
	for _, action := range []futurejobs.Action{
		futurejobs.Start{Job: futurejobs.Job{Version: 1, Since: now, FirstCheckAt: now.Add(time.Hour)}}, futurejobs.End{Outcome: "resolved"},
	} {
		effect := futurejobs.Effect{Rule: rule, Ref: futurejobs.Ref{RuleID: rule.ID, Key: "k"}, Action: action}
		if _, err := s.Apply(ctx, futurejobs.EffectBatch{RuleSet: set, Effects: []futurejobs.Effect{effect}}); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Duration(0)
	newTally := func() *outcomeCounter {
		return &outcomeCounter{OutcomeReader: s, now: func() time.Time { return now.Add(later) }, past: make(map[time.Time][]futurejobs.OutcomeCount)}
	}
	ends := func(of *outcomeCounter, want int) {
		t.Helper()
		got, err := of.count(ctx)
		if err != nil || len(got.hours) != want {
			t.Errorf("%s later: %d hours with ends, want %d: %v", later, len(got.hours), want, err)
		}
		if day := now.Add(later - endsSettle).UTC().Truncate(futurejobs.Day); !got.from.Equal(day.AddDate(0, 0, -endsDays)) {
			t.Errorf("%s later: counted from %s", later, got.from)
		}
	}
	today, over := newTally(), newTally()
	ends(today, 1)
	later = 3 * futurejobs.Day
	ends(over, 1)
	if _, err := s.Prune(ctx, store.Retention{History: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	later = 0
	ends(today, 0)
	for _, later = range []time.Duration{3 * futurejobs.Day, 10 * futurejobs.Day} {
		ends(over, 1)
	}
	later = 20 * futurejobs.Day
	ends(over, 0)
	if len(over.past) > endsDays+1 {
		t.Errorf("%d days are kept, want %d", len(over.past), endsDays)
	}
}
