package futurejobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// BenchmarkShift measures how many pending jobs a second one node moves after a step back of the database's clock.
func BenchmarkShift(b *testing.B) {
	const jobs = 100_000
	b.Run("postgres", func(b *testing.B) {
		benchShift(b, jobs, store.Options{DatabaseURL: storetest.Postgres(b)})
	})
	b.Run("sqlite", func(b *testing.B) {
		benchShift(b, jobs, store.Options{DataDir: storetest.DataDir(b)})
	})
}

func benchShift(b *testing.B, jobs int, o store.Options) {
	o.Log = slog.New(slog.DiscardHandler)
	s, err := store.Open(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	saveIn(b, s, withResolve)
	catalog := rules.NewCatalog(s, s.Shards())
	if err := catalog.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	startJobs(b, s, catalog, jobs)
	owner, _, stop := startNode(b, s, catalog, "n", o.Log)
	defer stop()
	for len(owner.Holding()) < s.Shards() {
		time.Sleep(10 * time.Millisecond)
	}
	clock := futurejobs.NewClock(s.Now, time.Now)
	if err := clock.Sync(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.FollowStep(b.Context(), -time.Hour, false); err != nil {
			b.Fatal(err)
		}
		ctx, done := context.WithCancel(b.Context())
		go func() { _ = futurejobs.NewShifter(s, catalog, owner, clock, o.Log).Run(ctx) }()
		for moved := int64(0); moved < int64(jobs); time.Sleep(10 * time.Millisecond) {
			if moved, err = s.Shifted(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		done()
	}
	b.ReportMetric(float64(jobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// startJobs begins jobs of rule 1 that are due in a month.
func startJobs(b *testing.B, s *store.Store, catalog *rules.Catalog, jobs int) {
	b.Helper()
	rule, err := catalog.Rule(b.Context(), 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	now, err := s.Now(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	all := make([]futurejobs.Effect, jobs)
	for i := range all {
		all[i] = futurejobs.Effect{
			Rule: rule, Ref: futurejobs.Ref{Shard: int16(i % s.Shards()), RuleID: 1, Key: fmt.Sprint(i)}, //nolint:gosec // a shard
			Action: futurejobs.Start{Job: futurejobs.Job{Version: 1, Since: now, FirstCheckAt: rule.Grid.Up(now.AddDate(0, 1, 0)), Event: []byte(`{"id":"x","total":12.5}`)}},
		}
	}
	for batch := range slices.Chunk(all, 1000) {
		if _, err := s.Apply(b.Context(), futurejobs.EffectBatch{RuleSet: catalog.Revision(), Effects: batch}); err != nil {
			b.Fatal(err)
		}
	}
}
