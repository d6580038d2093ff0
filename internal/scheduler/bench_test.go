package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// scheduleBench is a database and a broker with rules of stored schedules, and nodes with a share of the shards each.
type scheduleBench struct {
	store   *store.Store
	catalog *rules.Catalog
	rules   []string
	nodes   []*scheduler.Stored
	ticks   tickCounter
}

// newScheduleBench returns nodes whose database answers each request after a delay.
func newScheduleBench(b *testing.B, ruleCount, nodeCount int, delay time.Duration) *scheduleBench {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	address := storetest.Postgres(b)
	w := &scheduleBench{store: openStore(b, address)}
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(b), Addr: "127.0.0.1:0", Log: log})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	for i := range ruleCount {
		name := fmt.Sprint("reports-", i)
		w.rules = append(w.rules, name)
		saveRule(b, w.store, strings.Replace(reports, "name: reports", "name: "+name, 1))
	}
	w.catalog = rules.NewCatalog(w.store, w.store.Shards())
	if err := w.catalog.Refresh(b.Context()); err != nil {
		b.Fatal(err)
	}
	if delay > 0 {
		address = delayed(b, address, delay)
	}
	held := w.take(b)
	for i := range nodeCount {
		conn, err := bus.Connect(b.Context(), bus.Options{InProcess: server, Name: b.Name(), Log: log})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(conn.Close)
		share := slices.DeleteFunc(slices.Clone(held), func(h futurejobs.HeldShard) bool { return int(h.Shard)%nodeCount != i })
		w.nodes = append(w.nodes, &scheduler.Stored{
			Catalog: rules.StoredCatalog{Catalog: w.catalog}, Store: openStore(b, address), Emitter: conn.SchedulePublisher, Now: time.Now, Observer: &w.ticks, Log: log,
			Held:     func() []futurejobs.HeldShard { return share },
			Announce: func(context.Context, alerts.SystemAlert) error { return nil },
		})
	}
	return w
}

func openStore(b *testing.B, address string) *store.Store {
	b.Helper()
	s, err := store.Open(b.Context(), store.Options{DatabaseURL: address, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func saveRule(b *testing.B, s *store.Store, text string) {
	b.Helper()
	documents, err := rules.Parse([]byte(text), "")
	if err != nil {
		b.Fatal(err)
	}
	document, err := documents[0].Canonical()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Save(b.Context(), rules.RuleVersion{Name: documents[0].Name, Entity: documents[0].Entity, Document: document}, rules.AnyVersion); err != nil {
		b.Fatal(err)
	}
}

// delayed returns the address of a database whose answers take longer by a delay.
func delayed(b *testing.B, address string, delay time.Duration) string {
	b.Helper()
	dsn, err := url.Parse(address)
	if err != nil {
		b.Fatal(err)
	}
	link := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "database", "127.0.0.1:0", dsn.Host)
	if err := link.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(link.Stop)
	toxic := fmt.Sprintf(`{"name":"delay","type":"latency","stream":"downstream","toxicity":1,"attributes":{"latency":%d}}`, delay.Milliseconds())
	if _, err := link.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		b.Fatal(err)
	}
	dsn.Host = link.Listen
	return dsn.String()
}

// put stores n schedules of a text in each rule, as the API does: 10,000 in a call.
func (w *scheduleBench) put(b *testing.B, n int, text string, due time.Time) {
	b.Helper()
	for _, name := range w.rules {
		rule, err := rules.StoredCatalog{Catalog: w.catalog}.StoredRule(name)
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
}

// BenchmarkPutSchedules measures the creation of stored schedules, without HTTP. An operation is a schedule.
func BenchmarkPutSchedules(b *testing.B) {
	w := newScheduleBench(b, 1, 1, 0)
	b.ResetTimer()
	w.put(b, b.N, "0 9 * * 1-5", time.Time{})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "schedules/s")
}

// BenchmarkStoredTicks measures the ticks of one instant: each is decided, published and recorded. An operation is a tick of
// each rule. Two nodes on one machine share its cores with the database; with a database that is 50 ms away, they
// show how the work is shared.
func BenchmarkStoredTicks(b *testing.B) {
	for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
		for _, rules := range []int{1, 64} {
			for _, nodes := range []int{1, 2} {
				b.Run(fmt.Sprintf("delay=%s/rules=%d/nodes=%d", delay, rules, nodes), func(b *testing.B) { storedTicks(b, newScheduleBench(b, rules, nodes, delay)) })
			}
		}
	}
}

func storedTicks(b *testing.B, w *scheduleBench) {
	w.put(b, b.N, "0 9 * * 1-5", time.Now().Truncate(time.Second))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, len(w.nodes))
	total := b.N * len(w.rules)
	b.ResetTimer()
	for _, node := range w.nodes {
		go func() { ended <- node.Run(ctx) }()
	}
	for w.ticks.emitted.Load() < int64(total) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "ticks/s")
	cancel()
	for range w.nodes {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

// take takes all shards.
func (w *scheduleBench) take(b *testing.B) (held []futurejobs.HeldShard) {
	b.Helper()
	all, err := w.store.Leases(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, l := range all {
		got, ok, err := w.store.Take(b.Context(), "node", l.HeldShard, time.Hour)
		if err != nil || !ok {
			b.Fatalf("take shard %d: %v, %v", l.Shard, ok, err)
		}
		held = append(held, got.HeldShard)
	}
	return held
}
