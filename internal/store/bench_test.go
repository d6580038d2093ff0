package store_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// benchBatch is the number of jobs that a benchmark handles at once.
const benchBatch = 2000

// BenchmarkSettle ends jobs with one alert each, as a drain does. ns/op is per job.
func BenchmarkSettle(b *testing.B) {
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			l := newLoad(b, open(b))
			for n := 0; n < b.N; n += benchBatch {
				b.StopTimer()
				l.create(benchBatch)
				jobs := l.due()
				s := futurejobs.Settlement{Held: l.held, RuleSet: l.set}
				for _, j := range jobs {
					s.Decisions = append(s.Decisions, new(l.end(j)))
				}
				b.StartTimer()
				settled, err := l.Settle(b.Context(), s)
				if err != nil || len(settled.Jobs) != benchBatch {
					b.Fatalf("settled %d: %v", len(settled.Jobs), err)
				}
			}
		})
	}
}

// BenchmarkDrain is BenchmarkSettle with and without alerts that are queued for routing. ns/op is per job.
func BenchmarkDrain(b *testing.B) {
	for name, open := range stores(b) {
		for _, people := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/people=%t", name, people), func(b *testing.B) {
				l := newLoad(b, open(b))
				l.check(l.Notify(b.Context(), people))
				for n := 0; n < b.N; n += benchBatch {
					b.StopTimer()
					l.create(benchBatch)
					s := futurejobs.Settlement{Held: l.held, RuleSet: l.set}
					for _, j := range l.due() {
						s.Decisions = append(s.Decisions, new(l.end(j)))
					}
					b.StartTimer()
					if settled, err := l.Settle(b.Context(), s); err != nil || len(settled.Jobs) != benchBatch {
						b.Fatalf("settled %d: %v", len(settled.Jobs), err)
					}
				}
			})
		}
	}
}

// BenchmarkReschedule moves jobs to a later slot, with and without earlier alerts. ns/op is per job.
func BenchmarkReschedule(b *testing.B) {
	for name, open := range stores(b) {
		for _, raised := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/said=%t", name, raised), func(b *testing.B) {
				l := newLoad(b, open(b))
				l.create(benchBatch)
				for n := 0; n < b.N; n += benchBatch {
					b.StopTimer()
					s := futurejobs.Settlement{Held: l.held, RuleSet: l.set}
					for _, j := range l.due() {
						if raised && j.Alerts == nil {
							j.Alerts = l.end(j).Job.Alerts
						}
						j.NextCheckAt = j.NextCheckAt.Add(time.Second)
						s.Decisions = append(s.Decisions, &futurejobs.Decision{Job: j})
					}
					b.StartTimer()
					if settled, err := l.Settle(b.Context(), s); err != nil || len(settled.Jobs) != benchBatch {
						b.Fatalf("settled %d: %v", len(settled.Jobs), err)
					}
				}
			})
		}
	}
}

// BenchmarkCreate creates jobs. ns/op is per job.
func BenchmarkCreate(b *testing.B) { benchmarkCreate(b, false) }

// BenchmarkCreateLate creates jobs that may have early ends.
func BenchmarkCreateLate(b *testing.B) { benchmarkCreate(b, true) }

func benchmarkCreate(b *testing.B, early bool) {
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			l := newLoad(b, open(b))
			l.early = early
			for n := 0; n < b.N; n += benchBatch {
				l.create(benchBatch)
			}
		})
	}
}

// BenchmarkDue reads jobs in due order. ns/op is per job.
func BenchmarkDue(b *testing.B) {
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			l := newLoad(b, open(b))
			l.create(benchBatch)
			b.ResetTimer()
			for n := 0; n < b.N; n += benchBatch {
				if jobs := l.due(); len(jobs) != benchBatch {
					b.Fatalf("%d jobs", len(jobs))
				}
			}
		})
	}
}

// BenchmarkIdle polls 100,000 jobs of which none is due.
func BenchmarkIdle(b *testing.B) {
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			l := newLoad(b, open(b))
			for range 50 {
				l.create(benchBatch)
			}
			q := futurejobs.DueQuery{Cursors: l.walks, Until: l.first.Add(-time.Hour), Limit: benchBatch}
			b.ResetTimer()
			for b.Loop() {
				if jobs, err := l.Due(b.Context(), q); err != nil || len(jobs) != 0 {
					b.Fatalf("%d jobs: %v", len(jobs), err)
				}
			}
		})
	}
}

// BenchmarkUnpublished polls an outbox without alerts, as each node does several times a second.
func BenchmarkUnpublished(b *testing.B) {
	for _, shards := range []int{64, store.MaxShards} {
		for name, o := range map[string]store.Options{
			"sqlite":   {Shards: shards, DataDir: storetest.DataDir(b)},
			"postgres": {Shards: shards, DatabaseURL: storetest.Postgres(b)},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, shards), func(b *testing.B) {
				s := open(b, o)
				all := make([]int16, shards)
				for i := range all {
					all[i] = int16(i)
				}
				for b.Loop() {
					if waiting, _, err := s.Unpublished(b.Context(), all, 100, nil); err != nil || len(waiting) != 0 {
						b.Fatalf("%d alerts: %v", len(waiting), err)
					}
				}
			})
		}
	}
}

func stores(testing.TB) map[string]func(testing.TB) *store.Store {
	return map[string]func(testing.TB) *store.Store{
		"sqlite":   func(tb testing.TB) *store.Store { return open(tb, store.Options{DataDir: storetest.DataDir(tb)}) },
		"postgres": func(tb testing.TB) *store.Store { return open(tb, store.Options{DatabaseURL: storetest.Postgres(tb)}) },
	}
}

// load is a store with a rule, and a node that holds its shards.
type load struct {
	*store.Store
	tb    testing.TB
	rule  *futurejobs.Rule
	set   int64
	held  []futurejobs.HeldShard
	walks []futurejobs.ShardCursor
	first time.Time
	made  int
	early bool // jobs may have early ends
}

func newLoad(tb testing.TB, s *store.Store) *load {
	tb.Helper()
	l := &load{Store: s, tb: tb, first: time.Now().UTC().Add(24 * time.Hour).Truncate(time.Second)}
	saved, err := s.Save(tb.Context(), rules.RuleVersion{Name: "r", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
	l.check(err)
	l.set, err = s.Revision(tb.Context())
	l.check(err)
	l.rule = &futurejobs.Rule{ID: saved.RuleID, Version: 1, Name: "r", Entity: "e", Grid: futurejobs.Grid(time.Second)}
	leases, err := s.Leases(tb.Context())
	l.check(err)
	for _, seen := range leases {
		got, _, err := s.Take(tb.Context(), "me", seen.HeldShard, time.Hour)
		l.check(err)
		l.held = append(l.held, got.HeldShard)
		l.walks = append(l.walks, futurejobs.ShardCursor{Shard: got.Shard, ID: math.MinInt64})
	}
	return l
}

func (l *load) check(err error) {
	l.tb.Helper()
	if err != nil {
		l.tb.Fatal(err)
	}
}

func (l *load) create(n int) {
	l.tb.Helper()
	b := futurejobs.EffectBatch{RuleSet: l.set}
	for range n {
		l.made++
		key := fmt.Sprintf("k%09d", l.made)
		ref := futurejobs.Ref{Shard: futurejobs.ShardOf("e", key, l.Shards()), RuleID: l.rule.ID, Key: key}
		b.Effects = append(b.Effects, futurejobs.Effect{Rule: l.rule, Ref: ref, Action: futurejobs.Start{Early: l.early, Job: futurejobs.Job{
			Version: 1, Since: l.first, FirstCheckAt: l.first,
			Event: []byte(`{"order_id":"` + key + `","status":"UNSHIPPED","total":123,"currency":"EUR","customer":{"id":"cus-00001234","tier":"gold"}}`),
		}}})
	}
	_, err := l.Apply(l.tb.Context(), b)
	l.check(err)
}

func (l *load) due() []futurejobs.Job {
	l.tb.Helper()
	jobs, err := l.Due(l.tb.Context(), futurejobs.DueQuery{Cursors: l.walks, Until: l.first.AddDate(1, 0, 0), Limit: benchBatch})
	l.check(err)
	return jobs
}

func (l *load) end(j futurejobs.Job) futurejobs.Decision {
	a := alerts.Alert{
		ID:        alerts.Decision{JobID: j.ID, CreatedAt: j.CreatedAt, Check: 1, Status: alerts.Firing, At: j.NextCheckAt}.ID(),
		DecidedAt: l.first, Shard: j.Shard, RuleID: j.RuleID, Key: j.Key, RuleVersion: 1,
		Detail: alerts.Detail{
			Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Step: "primary", Text: "order " + j.Key + " waits"},
			Since: j.Since, Slot: j.NextCheckAt, CheckCount: 1, Event: j.Event,
		},
	}
	j.Alerts = []alerts.ID{a.ID}
	j.CheckCount, j.Step = 1, 1
	j.Last = futurejobs.CheckTimes{PickedAt: l.first, StartedAt: l.first, CompletedAt: l.first}
	return futurejobs.Decision{Job: j, Outcome: "exhausted", Alerts: []alerts.Alert{a}}
}

// BenchmarkPlanned counts a million pending jobs by the minute of their slot, over a day.
func BenchmarkPlanned(b *testing.B) {
	const jobs = 1_000_000
	for name, open := range stores(b) {
		b.Run(name, func(b *testing.B) {
			l := newLoad(b, open(b))
			span := futurejobs.BucketRange{From: l.first, Until: l.first.Add(futurejobs.Day), Width: time.Minute}
			for i := range jobs / benchBatch {
				l.first = span.From.Add(time.Duration(i) * time.Minute)
				l.create(benchBatch)
			}
			for _, rule := range []int32{0, l.rule.ID} {
				b.Run(fmt.Sprint("of one rule=", rule != 0), func(b *testing.B) {
					counted := int64(0)
					for range b.N {
						parts, err := l.Planned(b.Context(), span, rule)
						l.check(err)
						counted = 0
						for _, p := range parts {
							counted += p.Jobs
						}
					}
					b.ReportMetric(float64(counted), "jobs")
				})
			}
		})
	}
}
