package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// scheduleBench is a database and a broker with a rule of stored schedules.
type scheduleBench struct {
	store   *store.Store
	bus     *bus.Bus
	catalog *rules.Catalog
	rule    int32
}

func newScheduleBench(b *testing.B) *scheduleBench {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(b.Context(), store.Options{DatabaseURL: storetest.Postgres(b), Log: log})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(b), Addr: "127.0.0.1:0", Log: log})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	conn, err := bus.Connect(b.Context(), bus.Options{InProcess: server, Name: b.Name(), Log: log})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Close)
	documents, err := rules.Parse([]byte(reports), "")
	if err != nil {
		b.Fatal(err)
	}
	text, err := documents[0].Canonical()
	if err != nil {
		b.Fatal(err)
	}
	saved, err := s.Save(b.Context(), rules.RuleVersion{Name: "reports", Entity: "report", Document: text}, rules.AnyVersion)
	if err != nil {
		b.Fatal(err)
	}
	catalog := rules.NewCatalog(s, s.Shards())
	if err := catalog.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	return &scheduleBench{s, conn, catalog, saved.RuleID}
}

// put stores n schedules of a text, as the API does: 10,000 in a call.
func (w *scheduleBench) put(b *testing.B, n int, text string, due time.Time) {
	b.Helper()
	rule, err := rules.StoredCatalog{Catalog: w.catalog}.StoredRule("reports")
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < n; from += 10_000 {
		all := make([]futurejobs.Schedule, 0, 10_000)
		for i := from; i < min(n, from+10_000); i++ {
			s := futurejobs.Schedule{ID: fmt.Sprintf("customer-%08d", i), Text: text, Zone: "Europe/Berlin", Data: []byte(`{"customer": 17, "report": "weekly"}`), Enabled: true}
			if err := rule.Prepare(&s, time.Now()); err != nil {
				b.Fatal(err)
			}
			if !due.IsZero() {
				s.NextAt = due
			}
			all = append(all, s)
		}
		if _, err := w.store.PutSchedules(b.Context(), all, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutSchedules measures the creation of stored schedules, without HTTP. An operation is a schedule.
func BenchmarkPutSchedules(b *testing.B) {
	w := newScheduleBench(b)
	b.ResetTimer()
	w.put(b, b.N, "0 9 * * 1-5", time.Time{})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
}

// BenchmarkStoredTicks measures the ticks of one instant on one node: each is decided, published and recorded. An operation is
// a tick.
func BenchmarkStoredTicks(b *testing.B) {
	w := newScheduleBench(b)
	w.put(b, b.N, "0 9 * * 1-5", time.Now().Truncate(time.Second))
	var c tickCounter
	s := &scheduler.Stored{
		Catalog: rules.StoredCatalog{Catalog: w.catalog}, Store: w.store, Emitter: w.bus.SchedulePublisher, Held: w.take(b), Now: time.Now, Observer: &c, Log: slog.New(slog.DiscardHandler),
		Announce: func(context.Context, alerts.SystemAlert) error { return nil },
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ResetTimer()
	go func() { ended <- s.Run(ctx) }()
	for c.emitted.Load() < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ticks/s")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func (w *scheduleBench) take(b *testing.B) func() []futurejobs.HeldShard {
	b.Helper()
	all, err := w.store.Leases(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var held []futurejobs.HeldShard
	for _, l := range all {
		got, ok, err := w.store.Take(b.Context(), "node", l.HeldShard, time.Hour)
		if err != nil || !ok {
			b.Fatalf("take shard %d: %v, %v", l.Shard, ok, err)
		}
		held = append(held, got.HeldShard)
	}
	return func() []futurejobs.HeldShard { return held }
}
