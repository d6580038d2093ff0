package alerts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testdisk"
	"deadman/internal/testwait"
	"deadman/rules"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testdisk.InMemory(m), goleak.IgnoreAnyFunction("deadman/internal/store/storetest.(*Cluster).await")) // it ends with the process
}

const node = "a node"

// relayFixture is a database with decided alerts, and a broker.
type relayFixture struct {
	t      *testing.T
	dir    string
	server *bus.Server
	bus    *bus.Bus
	store  *store.Store
	rule   *futurejobs.Rule
	held   []futurejobs.HeldShard
	text   string // appended to those of the alerts
}

func newRelayFixture(t *testing.T, change ...func(*bus.Options)) *relayFixture {
	t.Helper()
	return newRelayFixtureOf(t, 16, change...)
}

func newRelayFixtureOf(t *testing.T, shards int, change ...func(*bus.Options)) *relayFixture {
	t.Helper()
	return newRelayFixtureOn(t, store.Options{DataDir: storetest.DataDir(t), Shards: shards, Log: discardLog()}, change...)
}

func newRelayFixtureOn(t *testing.T, database store.Options, change ...func(*bus.Options)) *relayFixture {
	t.Helper()
	w := &relayFixture{t: t, dir: bustest.Dir(t)}
	w.serve("127.0.0.1:0")
	var err error
	o := bus.Options{URL: w.server.ClientURL(), Log: discardLog()}
	for _, c := range change {
		c(&o)
	}
	if w.bus, err = bus.Connect(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.bus.Close)
	if w.store, err = store.Open(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.saveRule("late")
	w.acquireShards()
	return w
}

// saveRule creates a rule for the following decisions.
func (w *relayFixture) saveRule(name string) {
	w.t.Helper()
	saved, err := w.store.Save(w.t.Context(), rules.RuleVersion{Name: name, Entity: "order", Document: []byte(`{}`)}, rules.AnyVersion)
	if err != nil {
		w.t.Fatal(err)
	}
	w.rule = &futurejobs.Rule{ID: saved.RuleID, Version: saved.Version, Name: saved.Name, Entity: saved.Entity, Grid: futurejobs.Grid(time.Second)}
}

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (w *relayFixture) serve(addr string) {
	w.t.Helper()
	var err error
	if w.server, err = bus.StartServer(bus.ServerOptions{Dir: w.dir, Addr: addr, Log: discardLog()}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.server.Close)
}

func (w *relayFixture) acquireShards() {
	w.t.Helper()
	if _, err := w.store.Heartbeat(w.t.Context(), futurejobs.Node{ID: node, Name: node}, time.Hour); err != nil {
		w.t.Fatal(err)
	}
	leases, err := w.store.Leases(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range leases {
		got, ok, err := w.store.Take(w.t.Context(), node, l.HeldShard, time.Hour)
		if err != nil || !ok {
			w.t.Fatal(ok, err)
		}
		w.held = append(w.held, got.HeldShard)
	}
}

// raise creates n jobs and decides one alert about each.
func (w *relayFixture) raise(n int) {
	w.t.Helper()
	ctx := w.t.Context()
	revision, err := w.store.Revision(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	now, err := w.store.Now(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	batch := futurejobs.EffectBatch{RuleSet: revision}
	for i := range n {
		key := fmt.Sprint(now.UnixMicro(), "-", i)
		ref := futurejobs.Ref{Shard: futurejobs.ShardOf("order", key, w.store.Shards()), RuleID: w.rule.ID, Key: key}
		batch.Effects = append(batch.Effects, futurejobs.Effect{Rule: w.rule, Ref: ref, Action: futurejobs.Start{
			Job: futurejobs.Job{Version: w.rule.Version, Since: now, FirstCheckAt: w.rule.Grid.Up(now)},
		}})
	}
	if _, err := w.store.Apply(ctx, batch); err != nil {
		w.t.Fatal(err)
	}
	settlement := futurejobs.Settlement{Held: w.held, RuleSet: revision}
	for _, j := range w.jobs() {
		if len(j.Alerts) == 0 {
			settlement.Decisions = append(settlement.Decisions, new(w.decision(j.Job, now)))
		}
	}
	settled, err := w.store.Settle(ctx, settlement)
	if err != nil || settled.Alerts != n {
		w.t.Fatalf("%d alerts decided, want %d: %v", settled.Alerts, n, err)
	}
}

func (w *relayFixture) jobs() []futurejobs.ListedJob {
	w.t.Helper()
	var all []futurejobs.ListedJob
	f := futurejobs.Filter{Limit: futurejobs.MaxLimit}
	for {
		page, err := w.store.Jobs(w.t.Context(), f)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, page.Items...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return all
		}
	}
}

func (w *relayFixture) decision(j futurejobs.Job, now time.Time) futurejobs.Decision {
	j.CheckCount++
	slot := j.NextCheckAt
	j.NextCheckAt = w.rule.Grid.Up(slot.Add(time.Hour))
	a := alerts.Alert{
		ID:   alerts.Decision{JobID: j.ID, CreatedAt: j.CreatedAt, Check: j.CheckCount, Status: alerts.Firing, At: slot}.ID(),
		Rule: w.rule.Name, RuleVersion: 1, Entity: "order", Key: j.Key, DecidedAt: now, Shard: j.Shard, RuleID: w.rule.ID,
		Detail: alerts.Detail{Draft: alerts.Draft{Status: alerts.Firing, Severity: alerts.Warning, Text: "late" + w.text}, Since: j.Since, Slot: slot},
	}
	j.Alerts = []alerts.ID{a.ID}
	return futurejobs.Decision{Job: j, Alerts: []alerts.Alert{a}}
}

func (w *relayFixture) shards() []int16 {
	all := make([]int16, len(w.held))
	for i, h := range w.held {
		all[i] = h.Shard
	}
	return all
}

func (w *relayFixture) unpublished() []alerts.Alert {
	w.t.Helper()
	left, _, err := w.store.Unpublished(w.t.Context(), w.shards(), 100_000, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return left
}

// isDrained reports whether all alerts are published. It reads one, and not all that are left.
func (w *relayFixture) isDrained() bool { return w.isDrainedExcept() }

// isDrainedExcept reports whether all alerts are published but those of some rules.
func (w *relayFixture) isDrainedExcept(rules ...string) bool {
	w.t.Helper()
	left, _, err := w.store.Unpublished(w.t.Context(), w.shards(), 1, rules)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(left) == 0
}

// receive returns the keys of all alerts received by a consumer, with their counts.
func (w *relayFixture) receive(n int) map[string]int {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	keys := make(map[string]int)
	info, err := w.bus.Streams.Info(ctx, bus.AlertsStream)
	if err != nil {
		w.t.Fatal(err)
	}
	if info.LastSeq != uint64(n) {
		w.t.Fatalf("the stream took in %d alerts, want %d", info.LastSeq, n)
	}
	for _, a := range w.follow(n) {
		keys[a.Key]++
	}
	return keys
}

// follow returns the newest n alerts, as received by a consumer.
func (w *relayFixture) follow(n int) (seen []alerts.Alert) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	for a, err := range w.bus.AlertReader.Follow(ctx, n) {
		if err != nil {
			w.t.Fatal(err)
		}
		if seen = append(seen, a); len(seen) == n {
			break
		}
	}
	return seen
}

// settleAgain decides another alert about each of the given jobs.
func (w *relayFixture) settleAgain(severity alerts.Severity, jobs ...futurejobs.ListedJob) {
	w.t.Helper()
	revision, err := w.store.Revision(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	now, err := w.store.Now(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	s := futurejobs.Settlement{Held: w.held, RuleSet: revision}
	for _, old := range jobs {
		j, err := w.store.Job(w.t.Context(), old.Rule, old.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		d := w.decision(j.Job, now)
		d.Alerts[0].Severity = severity
		s.Decisions = append(s.Decisions, &d)
	}
	if settled, err := w.store.Settle(w.t.Context(), s); err != nil || settled.Alerts != len(jobs) {
		w.t.Fatalf("%d alerts decided: %v", settled.Alerts, err)
	}
}

// receiveOnce returns the keys of the jobs, each with a count of one.
func (w *relayFixture) receiveOnce() map[string]int {
	keys := make(map[string]int)
	for _, j := range w.jobs() {
		keys[j.Key]++
	}
	return keys
}

// run runs a relay until the test ends or stop is called.
func (w *relayFixture) run(r *alerts.Relay) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func TestEachAlertGetsOutOnce(t *testing.T) {
	w := newRelayFixture(t)
	w.raise(1500) // more than one batch
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog())
	w.run(relay)
	w.run(alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog())) // a node that lost its shards and has not noticed yet
	testwait.Until(t, "all are published", w.isDrained)
	w.raise(10)
	relay.Wake()
	testwait.Until(t, "what came later is published", w.isDrained)
	if diff := cmp.Diff(w.receiveOnce(), w.receive(1510)); diff != "" {
		t.Error(diff)
	}
	if err := relay.Err(); err != nil {
		t.Error(err)
	}
}

func TestPublishedAndNotMarked(t *testing.T) {
	w := newRelayFixture(t)
	w.raise(50)
	if sent, err := w.bus.AlertPublisher.Publish(t.Context(), w.unpublished()[:30]); err != nil || len(sent) != 30 {
		t.Fatal(len(sent), err)
	}
	more, err := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog()).Step(t.Context())
	if more || err != nil {
		t.Error(more, err)
	}
	if left := w.unpublished(); len(left) > 0 {
		t.Errorf("%d alerts are left", len(left))
	}
	if diff := cmp.Diff(w.receiveOnce(), w.receive(50)); diff != "" {
		t.Error(diff)
	}
}

// A node killed between publishing and marking returns after the broker's deduplication window has ended.
func TestPublishedAndNotMarkedForLong(t *testing.T) {
	w := newRelayFixture(t, func(o *bus.Options) { o.Window = 100 * time.Millisecond })
	w.raise(1200) // some in each lane, and more than a batch in total
	waiting := w.unpublished()
	if sent, err := w.bus.AlertPublisher.Publish(t.Context(), waiting); err != nil || len(sent) != len(waiting) {
		t.Fatal(len(sent), err)
	}
	// The window is over once an id is accepted again: on another subject nothing else rejects it. Until then the bus
	// does, as the stream has no such alert on that subject.
	other := waiting[len(waiting)-1]
	other.Severity = alerts.Info
	stored := func() uint64 {
		info, err := w.bus.Streams.Info(t.Context(), bus.AlertsStream)
		if err != nil {
			t.Fatal(err)
		}
		return info.LastSeq
	}
	testwait.Until(t, "the broker has forgotten the ids", func() bool {
		sent, err := w.bus.AlertPublisher.Publish(t.Context(), []alerts.Alert{other})
		var refusal *alerts.RejectedError
		if err != nil && !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		if last := stored(); err == nil && last != uint64(len(waiting)+1) {
			t.Fatalf("%d of 1 sent, and the stream has %d", len(sent), last)
		}
		return err == nil
	})
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog())
	w.run(relay)
	testwait.Until(t, "all are marked", w.isDrained)
	if n := stored(); n != uint64(len(waiting)+1) {
		t.Errorf("the stream has %d alerts, want %d", n, len(waiting)+1)
	}
	if err := relay.Err(); err != nil {
		t.Error(err)
	}
}

// Rows stay in the outbox while the stream is full, the relay reports it, and they are published once the stream has
// capacity.
func TestFullStream(t *testing.T) {
	w := newRelayFixture(t, func(o *bus.Options) { o.AlertsBytes = 100_000 })
	w.raise(500)
	recorded := &logRecorder{}
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, slog.New(recorded))
	w.run(relay)
	testwait.Until(t, "Err reports the full stream", func() bool {
		return relay.Err() != nil && strings.Contains(relay.Err().Error(), "max_bytes")
	})
	// Alerts published by another worker may not be marked yet.
	testwait.Until(t, "some are published", func() bool { return len(w.unpublished()) < 500 })
	if len(w.unpublished()) == 0 {
		t.Error("no alert waits")
	}
	w.setAlerts(func(c *jetstream.StreamConfig) { c.MaxBytes = 10 << 20 })
	testwait.Until(t, "all are published", w.isDrained)
	if diff := cmp.Diff(w.receiveOnce(), w.receive(500)); diff != "" {
		t.Error(diff)
	}
	testwait.Until(t, "the recovery is logged", func() bool { return recorded.infos.Load() == 1 && relay.Err() == nil })
	recorded.checkErrors(t, "max_bytes")
}

// setAlerts changes the stream of alerts, as an operator would.
func (w *relayFixture) setAlerts(change func(*jetstream.StreamConfig)) {
	w.t.Helper()
	js := bustest.JetStream(w.t, w.server.ClientURL())
	s, err := js.Stream(w.t.Context(), bus.AlertsStream)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	change(&cfg)
	if _, err := js.UpdateStream(w.t.Context(), cfg); err != nil {
		w.t.Fatal(err)
	}
}

func TestOnlyHolderRelays(t *testing.T) {
	w := newRelayFixture(t)
	w.raise(100)
	half := w.shards()[:len(w.held)/2]
	var mine []int16
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, func() []int16 { return mine }, discardLog())
	for _, mine = range [][]int16{nil, half} {
		if _, err := relay.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		of := make(map[bool]int)
		for _, a := range w.unpublished() {
			of[int(a.Shard) < len(half)]++
		}
		if (of[true] > 0) != (mine == nil) || of[false] == 0 {
			t.Errorf("of the shards %v: left are %v", mine, of)
		}
	}
}

func TestBrokerAway(t *testing.T) {
	w := newRelayFixture(t)
	w.raise(20)
	addr := strings.TrimPrefix(w.server.ClientURL(), "nats://")
	w.server.Close()
	recorded := &logRecorder{}
	relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, slog.New(recorded))
	w.run(relay)
	testwait.Until(t, "Err reports the full stream", func() bool { return relay.Err() != nil })
	if n := len(w.unpublished()); n != 20 {
		t.Errorf("%d alerts wait, want 20", n)
	}
	w.serve(addr)
	testwait.Until(t, "all are published", w.isDrained)
	testwait.Until(t, "the relay is well", func() bool { return relay.Err() == nil })
	if diff := cmp.Diff(w.receiveOnce(), w.receive(20)); diff != "" {
		t.Error(diff)
	}
	testwait.Until(t, "the recovery is logged", func() bool { return recorded.infos.Load() == 1 })
	recorded.checkErrors(t, "NATS is not reachable")
}

// logRecorder counts errors by their cause, and recoveries.
type logRecorder struct {
	infos atomic.Int32

	mu     sync.Mutex
	errors map[string]int
}

func (l *logRecorder) Enabled(context.Context, slog.Level) bool { return true }
func (l *logRecorder) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logRecorder) WithGroup(string) slog.Handler            { return l }

func (l *logRecorder) Handle(_ context.Context, r slog.Record) error {
	switch r.Level {
	case slog.LevelError:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.errors == nil {
			l.errors = make(map[string]int)
		}
		r.Attrs(func(a slog.Attr) bool { l.errors[a.Value.String()]++; return true })
	case slog.LevelInfo:
		l.infos.Add(1)
	}
	return nil
}

// checkErrors checks that a cause with a text was logged, and no cause twice. A slow machine adds causes, such as a request to the
// broker that takes too long.
func (l *logRecorder) checkErrors(t *testing.T, text string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := false
	for cause, n := range l.errors {
		found = found || strings.Contains(cause, text)
		if n != 1 {
			t.Errorf("%q was logged %d times, want 1", cause, n)
		}
	}
	if !found {
		t.Errorf("the logged errors lack %q: %v", text, l.errors)
	}
}
