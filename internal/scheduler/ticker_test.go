package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testwait"
	"deadman/rules"
)

const (
	patience = 2 * time.Minute        // bounds every wait of these tests
	window   = 100 * time.Millisecond // of the stream, for repeats
)

const eachSecond = `
name: each-second
entity: tick
trigger: {schedule: "@every 1s"}
escalate: [{after: 1h, step: primary}]
slot: 1m
`

// fixture is a database, a broker, and a rule with a schedule, once it is saved.
type fixture struct {
	*testing.T
	store *store.Store
	bus   *bus.Bus
	url   string
	rule  rules.RuleVersion
}

// databases returns the options of an empty database of each kind, by name.
func databases(shards int) map[string]func(*testing.T) store.Options {
	return map[string]func(*testing.T) store.Options{
		"SQLite": func(t *testing.T) store.Options { return store.Options{DataDir: storetest.DataDir(t), Shards: shards} },
		"Postgres": func(t *testing.T) store.Options {
			return store.Options{DatabaseURL: storetest.Postgres(t), Shards: shards}
		},
	}
}

func newFixture(t *testing.T, o store.Options) *fixture {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	server, err := bus.StartServer(bus.ServerOptions{Dir: bustest.Dir(t), Addr: "127.0.0.1:0", Log: o.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	b, err := bus.Connect(t.Context(), bus.Options{InProcess: server, Name: t.Name(), Window: window, Log: o.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return &fixture{T: t, store: s, bus: b, url: server.ClientURL()}
}

func (w *fixture) save(rule string) rules.RuleVersion {
	w.Helper()
	saved, err := w.saveContext(w.Context(), rule)
	if err != nil {
		w.Fatal(err)
	}
	return saved
}

// saveContext saves the next version of a rule.
func (w *fixture) saveContext(ctx context.Context, rule string) (rules.RuleVersion, error) {
	documents, err := rules.Parse([]byte(rule), "")
	if err != nil {
		return rules.RuleVersion{}, err
	}
	text, err := documents[0].Canonical()
	if err != nil {
		return rules.RuleVersion{}, err
	}
	return w.store.Save(ctx, rules.RuleVersion{Name: documents[0].Name, Entity: documents[0].Entity, Document: text}, rules.AnyVersion)
}

// allShards holds all shards, like a node that was suspended past the end of its leases.
type allShards struct{}

func (allShards) Holds(int16) bool { return true }
func (allShards) Count() int       { return 4 }

// tickCounter counts ticks.
type tickCounter struct{ began, emitted atomic.Int64 }

func (c *tickCounter) Ticked(_ string, outcome futurejobs.TickOutcome, n int) {
	switch outcome {
	case futurejobs.TickStarted, futurejobs.TickMissed:
		c.began.Add(int64(n))
	case futurejobs.TickEmitted:
		c.emitted.Add(int64(n))
	}
}

func (*tickCounter) Alerted(alerts.Alert) {}

// catalog returns the catalog of a node.
func (w *fixture) catalog() *rules.Catalog {
	w.Helper()
	catalog := rules.NewCatalog(w.store, w.store.Shards())
	if err := catalog.Refresh(w.Context()); err != nil {
		w.Fatal(err)
	}
	return catalog
}

// node runs a scheduler with its own catalog until stop or the end of the test.
func (w *fixture) node(ledger scheduler.CursorStore, c *tickCounter) (stop func()) {
	w.Helper()
	return w.ticker(scheduler.Options{Catalog: w.catalog(), Cursors: ledger, Emitter: w.bus.TickPublisher, Observer: c})
}

// ticker runs a scheduler of some parts until stop or the end of the test.
func (w *fixture) ticker(o scheduler.Options) (stop func()) {
	w.Helper()
	o.Now = time.Now
	_, stop = w.start(o)
	return stop
}

// lateTicker starts a scheduler for which three more minutes have passed.
func (w *fixture) lateTicker(catalog scheduler.ScheduleReader) (t *scheduler.Scheduler, stop func()) {
	w.Helper()
	return w.start(scheduler.Options{
		Catalog: catalog, Cursors: w.store, Emitter: w.bus.TickPublisher, Observer: &tickCounter{},
		Now: func() time.Time { return time.Now().Add(3 * time.Minute) },
	})
}

// start runs a scheduler until stop, or until the end of the test.
func (w *fixture) start(o scheduler.Options) (t *scheduler.Scheduler, stop func()) {
	w.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	if o.Shards == nil {
		o.Shards = allShards{}
	}
	o.Announce = func(ctx context.Context, r alerts.SystemAlert) error {
		_, _, err := w.store.WriteSystemAlert(ctx, r)
		return err
	}
	t = scheduler.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := t.Run(ctx); err != nil {
			w.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.Cleanup(stop)
	return t, stop
}

func (w *fixture) eventually(what string, ok func() bool) {
	w.Helper()
	testwait.Until(w, what, ok)
}

// jobs returns the pending jobs of the rule.
func (w *fixture) jobs() []futurejobs.Job {
	w.Helper()
	jobs, err := w.store.JobsOf(w.Context(), w.rule.RuleID, futurejobs.Ref{}, 1000)
	if err != nil {
		w.Fatal(err)
	}
	return jobs
}

// raised returns the alerts that were raised, none of which is published.
func (w *fixture) raised() []alerts.Alert {
	w.Helper()
	all, _, err := w.store.Unpublished(w.Context(), []int16{0, 1, 2, 3}, 10, nil)
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// cursor returns the cursor of the rule's ticks.
func (w *fixture) cursor() futurejobs.Cursor {
	w.Helper()
	c, ok, err := w.store.Cursor(w.Context(), futurejobs.TickStream(w.rule.RuleID))
	if err != nil {
		w.Fatal(err)
	}
	if !ok {
		return futurejobs.Cursor{LastSeq: uint64(w.rule.SavedAt.Unix())}
	}
	return c
}

// Two nodes that both hold the shard apply each tick once, and so does a node that continues after another stopped.
func TestTickIsAppliedOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DatabaseURL: storetest.Postgres(t), Shards: 4})
	w.rule = w.save(eachSecond)
	var c tickCounter
	stop := w.node(w.store, &c)
	w.node(w.store, &c)
	w.eventually("three ticks", func() bool { return len(w.jobs()) >= 3 })
	stop()
	ticked := len(w.jobs())
	w.node(w.store, &c)
	w.eventually("two more", func() bool { return len(w.jobs()) >= ticked+2 })
	w.eventually("all that were applied are counted, each once", func() bool {
		before := c.began.Load()
		cursor := w.cursor()
		seconds := int64(cursor.LastSeq) - w.rule.SavedAt.Unix()
		return before == c.began.Load() && before == seconds && cursor.LastSeq == w.cursor().LastSeq
	})
	seen := make(map[time.Time]bool)
	for _, j := range w.jobs() {
		if seen[j.Since] || j.Key != j.Since.UTC().Format(time.RFC3339) || !j.Since.Equal(j.Since.Truncate(time.Second)) {
			t.Errorf("the tick at %s began %s", j.Since, j.Key)
		}
		seen[j.Since] = true
	}
	w.eventually("the jobs that the ticks made are accounted for", func() bool {
		before := w.cursor().Created
		return int(before) == len(w.jobs()) && before == w.cursor().Created
	})
}

// failingStore is a database that fails once, just before a tick is committed.
type failingStore struct {
	*store.Store
	failed atomic.Bool
}

var errLost = errors.New("the connection was lost")

func (f *failingStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	if !f.failed.Swap(true) {
		return futurejobs.ApplyResult{}, errLost
	}
	return f.Store.Apply(ctx, b)
}

// An event that was published by a node that stopped before the commit is not published again by the next node, after
// any time.
func TestTickIsEmittedOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	tick := time.Now().Add(2 * time.Second).UTC().Truncate(time.Second)
	w.rule = w.save(fmt.Sprintf(`
name: import-due
entity: import
trigger: {schedule: "@at %s", emit: {subject: imports.due, data: {all: true}}}
`, tick.Format(time.RFC3339)))
	var c tickCounter
	lost := &failingStore{Store: w.store}
	stop := w.node(lost, &c)
	w.eventually("an event, and no cursor", func() bool { return lost.failed.Load() })
	stop()
	events := func() (all []*jetstream.RawStreamMsg) {
		stream, err := bustest.JetStream(t, w.url).Stream(t.Context(), bus.EventsStream)
		if err != nil {
			t.Fatal(err)
		}
		for seq := uint64(1); ; seq++ {
			m, err := stream.GetMsg(t.Context(), seq)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return all
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
	}
	published := events()
	if len(published) != 1 || w.cursor().LastSeq >= uint64(tick.Unix()) {
		t.Fatalf("%d events, cursor %d: nothing is tested", len(published), w.cursor().LastSeq)
	}
	w.eventually("the window for repeats is over", func() bool { return time.Since(published[0].Time) > 2*window })
	w.node(w.store, &c)
	w.eventually("the next node came further", func() bool { return c.emitted.Load() == 1 && w.cursor().LastSeq == uint64(tick.Unix()) })
	if all := events(); len(all) != 1 || all[0].Header.Get("ce-id") != fmt.Sprintf("import-due-%d", tick.Unix()) {
		t.Errorf("%d events: %+v", len(all), all)
	}
}

// blockingPublisher is a broker that does not answer, like one with a stream without a leader.
type blockingPublisher struct{ requested atomic.Bool }

func (m *blockingPublisher) PublishTick(ctx context.Context, _ futurejobs.Emission, _ scheduler.Held) error {
	m.requested.Store(true)
	<-ctx.Done()
	return ctx.Err()
}

// Ticks that start jobs do not wait for a broker that does not answer.
func TestUnresponsiveBrokerDelaysNoJobs(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save(eachSecond)
	w.save(`
name: import-due
entity: import
trigger: {schedule: "@every 1s", emit: {subject: imports.due}}
`)
	var c tickCounter
	var broker blockingPublisher
	w.ticker(scheduler.Options{Catalog: w.catalog(), Cursors: w.store, Emitter: &broker, Observer: &c})
	w.eventually("the broker is queried", broker.requested.Load)
	lastSeq := w.cursor().LastSeq
	w.eventually("two ticks begin waits", func() bool { return w.cursor().LastSeq >= lastSeq+2 })
	if n := c.emitted.Load(); n != 0 {
		t.Errorf("%d events were emitted without a broker", n)
	}
}

// countingCatalog counts how often the rules with schedules are listed.
type countingCatalog struct {
	*rules.Catalog
	times atomic.Int64
}

func (l *countingCatalog) Scheduled() (revision int64, all []futurejobs.TickingRule) {
	l.times.Add(1)
	return l.Catalog.Scheduled()
}

// The rules are listed after a change, and not for each tick.
func TestRulesAreListedOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save(eachSecond)
	var c tickCounter
	catalog := &countingCatalog{Catalog: w.catalog()}
	w.ticker(scheduler.Options{Catalog: catalog, Cursors: w.store, Emitter: w.bus.TickPublisher, Observer: &c})
	w.eventually("three ticks", func() bool { return c.began.Load() >= 3 })
	if n := catalog.times.Load(); n != 2 { // for those that emit, and those that do not
		t.Errorf("listed %d times", n)
	}
}

// failingPublisher is a broker that refuses the first attempts to publish.
type failingPublisher struct {
	scheduler.Emitter
	left atomic.Int64
}

func (p *failingPublisher) PublishTick(ctx context.Context, e futurejobs.Emission, held scheduler.Held) error {
	if p.left.Add(-1) >= 0 {
		return errLost
	}
	return p.Emitter.PublishTick(ctx, e, held)
}

// A tick that fails twice before its event is published has one row that counts three attempts, also if the rules are
// loaded again meanwhile.
func TestAttemptsOfTickAreRecorded(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	tick := time.Now().Add(2 * time.Second).UTC().Truncate(time.Second)
	w.rule = w.save(fmt.Sprintf("name: import-due\nentity: import\ntrigger: {schedule: \"@at %s\", emit: {subject: imports.due}}\n", tick.Format(time.RFC3339)))
	broker := failingPublisher{Emitter: w.bus.TickPublisher}
	broker.left.Store(2)
	catalog := w.catalog()
	var loads futurejobs.LoadCounter
	w.ticker(scheduler.Options{Catalog: catalog, Cursors: w.store, Emitter: &broker, Observer: &tickCounter{}, Loads: &loads})
	w.eventually("an attempt fails", func() bool { return broker.left.Load() == 1 })
	w.save(eachSecond)
	if err := catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the tick is applied", func() bool { return w.cursor().LastSeq == uint64(tick.Unix()) })
	page, err := w.store.Ticks(t.Context(), w.rule.RuleID, futurejobs.TickFilter{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("ticks: %+v, %v, want one", page.Items, err)
	}
	got := page.Items[0]
	if late := got.AppliedAt.Sub(tick); late < 0 || late > patience {
		t.Errorf("the tick at %s was applied at %s", tick, got.AppliedAt)
	}
	got.AppliedAt = time.Time{}
	want := futurejobs.AppliedTick{
		RuleID: w.rule.RuleID, At: got.At, Outcome: futurejobs.TickEmitted, Attempts: 3, EventID: fmt.Sprintf("import-due-%d", tick.Unix()),
	}
	if got != want || !got.At.Equal(tick) {
		t.Errorf("recorded %+v, want %+v at %s", got, want, tick)
	}
	var load []futurejobs.SlotLoad
	w.eventually("the tick is counted once, in its minute", func() bool { load = append(load, countedTicks(&loads, w.rule.RuleID)...); return len(load) > 0 })
	if len(load) != 1 || !load[0].At.Equal(tick.Truncate(time.Minute)) || load[0].Ticks != 1 || load[0].MaxTickLateness <= 0 || load[0].MaxTickLateness > patience {
		t.Errorf("load: %+v", load)
	}
}

// countedTicks takes the counts of a rule.
func countedTicks(l *futurejobs.LoadCounter, rule int32) []futurejobs.SlotLoad {
	return slices.DeleteFunc(l.Take(), func(m futurejobs.SlotLoad) bool { return m.RuleID != rule })
}
