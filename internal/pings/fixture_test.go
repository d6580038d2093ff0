package pings_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	futurejobs "deadman/future_jobs"
	"deadman/internal/pings"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backupRule is the rule of the fixture. Its slots are so long that hardly any test sees the end of one.
const backupRule = `
name: backup
entity: host
trigger: {heartbeat: {every: 24h, grace: 1h, max: 6h, keys: [nightly, weekly]}}
slot: 6h
`

// fixture is a real store with a rule, and a node that receives pings.
type fixture struct {
	*testing.T
	*store.Store
	catalog *rules.Catalog
	rule    *rules.Rule
	finder  *pings.Resolver
	taker   *pings.Receiver
	writer  *pings.LogWriter
	done    atomic.Int64 // transactions that changed jobs
	wrote   atomic.Int64 // jobs changed
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{DataDir: storetest.DataDir(t), Shards: 4, Log: slog.New(slog.DiscardHandler)})
	failOn(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	w := &fixture{T: t, Store: s}
	w.catalog = rules.NewCatalog(s, s.Shards())
	w.save(backupRule)
	w.refresh()
	w.finder = &pings.Resolver{Store: s, Catalog: w.catalog, Now: time.Now}
	return w
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save saves a rule as another node does: the catalog of this node is not refreshed.
func (w *fixture) save(text string) {
	w.Helper()
	documents, err := rules.Parse([]byte(text), "test.yaml")
	failOn(w.T, err)
	document, err := json.Marshal(documents[0])
	failOn(w.T, err)
	_, err = w.Save(w.Context(), rules.RuleVersion{Name: documents[0].Name, Entity: documents[0].Entity, Document: document}, rules.AnyVersion)
	failOn(w.T, err)
}

func (w *fixture) refresh() {
	w.Helper()
	failOn(w.T, w.catalog.Refresh(w.Context()))
	rule, err := w.catalog.Newest("backup")
	failOn(w.T, err)
	w.rule = rule
}

// Pinged implements pings.Observer.
func (w *fixture) Pinged(done futurejobs.ApplyResult) {
	w.done.Add(1)
	w.wrote.Add(int64(done.Created + done.Postponed))
}

// run starts a receiver; stop ends it.
func (w *fixture) run(ledger pings.EffectStore) (stop func()) {
	cancel, wait := w.start(ledger)
	return func() { cancel(); wait() }
}

// start is runs with stop in two halves: cancel does not wait.
func (w *fixture) start(ledger pings.EffectStore) (cancel, wait func()) {
	w.writer = &pings.LogWriter{Store: w.Store, Log: slog.New(slog.DiscardHandler)}
	w.taker = pings.NewReceiver(pings.Receiver{
		Catalog: w.catalog, Effects: ledger, Shards: w.Shards(), Now: time.Now, Observer: w, Log: w.writer,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.taker.Run(ctx) }()
	wait = func() {
		for err := range ended {
			if err != nil {
				w.Error(err)
			}
			close(ended)
		}
	}
	w.Cleanup(func() { cancel(); wait() })
	return cancel, wait
}

// newPing returns a ping of a key.
func (w *fixture) newPing(key string, kind rules.Signal) pings.Ping {
	return pings.Ping{Target: pings.Target{Rule: "backup", RuleID: w.rule.Engine().ID, Key: key}, Signal: pings.Signal{Kind: kind}}
}

// send sends a ping, or fails the test.
func (w *fixture) send(p pings.Ping) {
	w.Helper()
	failOn(w.T, w.taker.Receive(w.Context(), p))
}

// job returns the pending job of a key.
func (w *fixture) job(key string) futurejobs.Job {
	w.Helper()
	l, err := w.Job(w.Context(), "backup", key)
	failOn(w.T, err)
	return l.Job
}

// log returns the log of a key, newest first.
func (w *fixture) log(key string) []pings.Entry {
	w.Helper()
	w.writer.Write(w.Context())
	entries, err := w.finder.History(w.Context(), w.rule.Engine().ID, key, 0, 1000)
	failOn(w.T, err)
	return entries
}
