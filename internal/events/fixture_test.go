package events_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testdisk"
	"deadman/internal/testwait"
	"deadman/rules"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testdisk.InMemory(m), goleak.IgnoreAnyFunction("deadman/internal/store/storetest.(*Cluster).await")) // it ends with the process
}

// fixture is a database and a broker.
type fixture struct {
	t      *testing.T
	dir    string
	server *bus.Server
	bus    *bus.Bus
	store  *store.Store
	data   string       // folder of the database
	rules  string       // folder of the rule files
	deaf   atomic.Int32 // number of system alerts that fail first
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureOn(t, "")
}

// onBothDatabases runs a test on each database, concurrently with other tests.
func onBothDatabases(t *testing.T, test func(t *testing.T, w *fixture)) {
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, newFixture(t)) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, newFixtureOn(t, storetest.Postgres(t))) })
}

// newFixtureOn returns a fixture on Postgres, or without a URL on SQLite.
func newFixtureOn(t *testing.T, url string) *fixture {
	t.Helper()
	w := &fixture{t: t, dir: bustest.Dir(t), data: storetest.DataDir(t), rules: t.TempDir()}
	w.server = w.serve("127.0.0.1:0")
	var err error
	w.bus, err = bus.Connect(t.Context(), bus.Options{URL: w.server.ClientURL(), Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.bus.Close)
	w.store, err = store.Open(t.Context(), store.Options{DatabaseURL: url, DataDir: w.data, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (w *fixture) serve(addr string) *bus.Server {
	w.t.Helper()
	s, err := bus.StartServer(bus.ServerOptions{Dir: w.dir, Addr: addr, Log: discardLog()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// unshippedRule returns the rule of an entity with its step after the given hours.
func unshippedRule(entity string, hours int) string {
	return fmt.Sprintf(`
name: %[1]s-unshipped
entity: %[1]s
trigger: {event: %[1]s.created, key: event.id}
resolve: {event: %[1]s.shipped, key: event.id}
escalate: [{after: %[2]dh, step: primary}]
slot: 1s
`, entity, hours)
}

// saveOrderRule applies the rule of an entity, with a shipment as its resolve.
func (w *fixture) saveOrderRule(entity string) {
	w.t.Helper()
	w.saveRuleAfter(entity, 1)
}

// saveRuleAfter is rule with its step after the given hours.
func (w *fixture) saveRuleAfter(entity string, hours int) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.rules, entity+".yaml"), []byte(unshippedRule(entity, hours)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	report, err := w.registry().ApplyDir(w.t.Context(), w.rules)
	if err != nil || len(report.Problems) > 0 {
		w.t.Fatal(err, report.Problems)
	}
}

func (w *fixture) registry() *rules.Registry {
	return &rules.Registry{Store: w.store, Binder: w.bus.Binder, Catalog: rules.NewCatalog(w.store, w.store.Shards()), Jobs: w.store, Announce: w.writeSystemAlert, Now: time.Now, Log: discardLog()}
}

func (w *fixture) publish(subject, body string) uint64 {
	w.t.Helper()
	seq, err := w.send(subject, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return seq
}

// send publishes an event from any goroutine.
func (w *fixture) send(subject, body string) (uint64, error) {
	_, seq, _, err := w.bus.EventPublisher.PublishEvent(w.t.Context(), subject, []byte(body), nil, "")
	return seq, err
}

func (w *fixture) publishIDs(subject string, from, to int) {
	w.t.Helper()
	for i := from; i < to; i++ {
		w.publish(subject, fmt.Sprintf(`{"id":%d}`, i))
	}
}

func (w *fixture) js() jetstream.JetStream {
	w.t.Helper()
	return bustest.JetStream(w.t, w.server.ClientURL())
}

func (w *fixture) cursor(stream string) futurejobs.Cursor {
	w.t.Helper()
	c, _, err := w.store.Cursor(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// jobs counts pending jobs and ended ones.
func (w *fixture) jobs() (pending, ended int) {
	w.t.Helper()
	return count(w.t, w.store.Jobs), count(w.t, w.store.History)
}

func count[T any](t *testing.T, list func(context.Context, futurejobs.Filter) (futurejobs.Page[T], error)) (n int) {
	t.Helper()
	f := futurejobs.Filter{Limit: futurejobs.MaxLimit}
	for {
		page, err := list(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Items)
		if f.Cursor = page.Next; f.Cursor == "" {
			return n
		}
	}
}

// shards are held all or not at all.
type shards struct {
	held atomic.Bool
	n    int
}

func (s *shards) Holds(int16) bool { return s.held.Load() }
func (s *shards) Count() int       { return s.n }

// outcomeCounter counts ingested events by outcome.
type outcomeCounter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *outcomeCounter) Ingested(outcome string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[outcome] += n
}

// Summarized implements Observer; it counts an outcome of its own.
func (c *outcomeCounter) Summarized(n int64) { c.Ingested("summarized", int(n)) }

// Alerted implements Observer; the tests read the alerts from the store.
func (c *outcomeCounter) Alerted(alerts.Alert) {}

func (c *outcomeCounter) count(outcome string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[outcome]
}

// node is one running intake.
type node struct {
	*events.Intake
	shards shards
	counts outcomeCounter
	stop   func()
}

// start runs an intake that holds all shards, until the test ends or stop is called.
func (w *fixture) start() *node {
	w.t.Helper()
	return w.startOn(w.store)
}

// startOn is start with a wrapper around the database.
func (w *fixture) startOn(ledger futurejobs.EffectStore) *node {
	w.t.Helper()
	return w.startReading(w.bus.Streams, ledger)
}

// startReading is startOn with a wrapper around the streams too.
func (w *fixture) startReading(streams events.Streams, ledger futurejobs.EffectStore) *node {
	w.t.Helper()
	clock := futurejobs.NewClock(w.store.Now, time.Now)
	if err := clock.Sync(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	catalog := rules.NewCatalog(w.store, w.store.Shards())
	n := &node{shards: shards{n: w.store.Shards()}, counts: outcomeCounter{n: make(map[string]int)}}
	n.shards.held.Store(true)
	n.Intake = events.NewIntake(events.Options{
		Streams: streams, Catalog: catalog, Store: ledger, Shards: &n.shards,
		Now: clock.Now, Announce: w.writeSystemAlert, Observer: &n.counts, Log: discardLog(), BrokerUptime: w.bus.Conn.ConnectedFor,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(n.stop)
	return n
}

// waitUntilCaughtUp waits until an event is applied.
func (w *fixture) waitUntilCaughtUp(stream string, seq uint64) {
	w.t.Helper()
	testwait.Until(w.t, fmt.Sprintf("%s is applied to %d", stream, seq), func() bool { return w.cursor(stream).LastSeq >= seq })
}

// writeSystemAlert writes a system alert, like a node.
func (w *fixture) writeSystemAlert(ctx context.Context, r alerts.SystemAlert) error {
	if w.deaf.Add(-1) >= 0 {
		return errors.New("the database is away")
	}
	_, _, err := w.store.WriteSystemAlert(ctx, r)
	return err
}

// systemAlerts returns the alerts about streams, newest first.
func (w *fixture) systemAlerts() []futurejobs.ListedAlert {
	w.t.Helper()
	page, err := w.store.Alerts(w.t.Context(), futurejobs.Filter{Rule: alerts.SystemRule, Limit: futurejobs.MaxLimit})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Items
}
