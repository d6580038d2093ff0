package futurejobs_test

import (
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// BenchmarkJobsBesideManyPending measures the lateness of a rule's jobs while very many jobs of another rule wait,
// for a stream that is not read or for an unreadable version: the quantiles of 400 jobs, after the first minute and
// in it. Run it with -benchtime 1x; ten million take 5 GB and some minutes to set up.
func BenchmarkJobsBesideManyPending(b *testing.B) {
	for what, save := range map[string]func(*store.Store){
		"stream": func(s *store.Store) { saveIn(b, s, withResolve) },
		"version": func(s *store.Store) {
			newer := rules.RuleVersion{Name: "newer", Entity: "thing", Document: []byte(`{"name": "newer", "telepathy": true}`)}
			if _, err := s.Save(b.Context(), newer, rules.AnyVersion); err != nil {
				b.Fatal(err)
			}
		},
	} {
		for _, n := range []int{0, 100_000, 1_000_000, 10_000_000} {
			b.Run(fmt.Sprint(what, "/", n), func(b *testing.B) {
				for range b.N {
					benchWithParked(b, n, save)
				}
			})
		}
	}
}

// benchWithParked saves the rule of the waiting jobs first.
func benchWithParked(b *testing.B, n int, save func(*store.Store)) {
	dsn := storetest.Postgres(b)
	s, err := store.Open(b.Context(), store.Options{DatabaseURL: dsn, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	catalog := rules.NewCatalog(s, s.Shards())
	save(s)
	saveIn(b, s, fmt.Sprintf(noResolve, "small", "small"))
	if err := catalog.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	db, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	// they were due one after the other, in the minutes before
	for _, text := range []string{fmt.Sprintf(`INSERT INTO future_job (next_check_at, first_check_at, created_at, since_at, rule_id, version, shard, key, event)
SELECT now() - interval '10 minutes' + make_interval(secs => trunc(600.0 * i / %d)), now(), now(), now(), 1, 1, i %% 16, 'k' || i, '{"id":"x","more":"0123456789012345678901234567890123456789"}'
FROM generate_series(1, %d) AS i`, max(n, 1), n), `VACUUM ANALYZE future_job`} {
		if _, err := db.Exec(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	// Sync gigabytes of recent writes to disk now, so that they do not disturb the measurement.
	if err := exec.Command("sync").Run(); err != nil {
		b.Fatal(err)
	}
	_, _, stop := startNode(b, s, catalog, "n", slog.New(slog.DiscardHandler))
	defer func() {
		stop()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	small, err := catalog.Rule(b.Context(), 2, 1)
	if err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	const jobs, early = 600, 200
	begun, err := s.Now(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for i := range jobs {
		<-tick.C
		now, err := s.Now(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Apply(b.Context(), futurejobs.EffectBatch{RuleSet: catalog.Revision(), Effects: []futurejobs.Effect{{
			Rule: small, Ref: futurejobs.Ref{Shard: int16(i % 16), RuleID: 2, Key: fmt.Sprint(i)}, //nolint:gosec // a shard
			Action: futurejobs.Start{Job: futurejobs.Job{Version: 1, Since: now, FirstCheckAt: small.Grid.Up(now.Add(time.Second)), Event: []byte(`{}`)}},
		}}}); err != nil {
			b.Fatal(err)
		}
	}
	var first, rest []time.Duration
	for wait := time.Now(); len(first)+len(rest) < jobs && time.Since(wait) < 2*time.Minute; <-tick.C {
		first, rest = nil, nil
		for _, a := range alertsIn(b, s) {
			if late := a.DecidedAt.Sub(a.Slot); a.Slot.Before(begun.Add(early * 200 * time.Millisecond)) {
				first = append(first, late)
			} else {
				rest = append(rest, late)
			}
		}
	}
	if len(first)+len(rest) < jobs {
		b.Fatalf("%d of %d were decided", len(first)+len(rest), jobs)
	}
	slices.Sort(first)
	slices.Sort(rest)
	for name, late := range map[string]time.Duration{
		"first-p99-ms": first[len(first)*99/100], "p50-ms": rest[len(rest)/2], "p99-ms": rest[len(rest)*99/100], "max-ms": rest[len(rest)-1],
	} {
		b.ReportMetric(float64(late.Milliseconds()), name)
	}
	b.ReportMetric(0, "ns/op")
}
