package alerts_test

import (
	"slices"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testwait"
)

// republish requests another publication of all alerts.
func (w *relayFixture) republish(want int64) {
	w.t.Helper()
	if n, err := w.store.Republish(w.t.Context(), futurejobs.Filter{After: time.Unix(0, 0)}); n != want || err != nil {
		w.t.Fatalf("%d alerts are to be published again, want %d: %v", n, want, err)
	}
}

// drain relays until no publishable alert is left.
func (w *relayFixture) drain(relay *alerts.Relay) {
	w.t.Helper()
	for more := true; more; {
		var err error
		if more, err = relay.Step(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// loseStream deletes the stream of alerts, as an operator would.
func (w *relayFixture) loseStream() {
	w.t.Helper()
	if err := bustest.JetStream(w.t, w.server.ClientURL()).DeleteStream(w.t.Context(), bus.AlertsStream); err != nil {
		w.t.Fatal(err)
	}
}

// releaseHalf returns the shards with the given remainder modulo 2, as held by one of two nodes.
func (w *relayFixture) releaseHalf(rest int16) func() []int16 {
	return func() []int16 {
		return slices.DeleteFunc(w.shards(), func(shard int16) bool { return shard%2 != rest })
	}
}

// runThree runs the relays of two nodes, and of one that lost its shards and has not noticed yet.
func (w *relayFixture) runThree() (nodes []*alerts.Relay, stop func()) {
	var stops []func()
	for _, rest := range []int16{0, 1, 1} {
		r := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.releaseHalf(rest), discardLog())
		nodes, stops = append(nodes, r), append(stops, w.run(r))
	}
	return nodes, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// checkOrder checks that consumers receive n alerts, those of each key in the order of their decisions.
func (w *relayFixture) checkOrder(n int) {
	w.t.Helper()
	last, wrong := make(map[string]time.Time), 0
	for _, a := range w.follow(n) {
		if !a.DecidedAt.After(last[a.Key]) {
			wrong++
		}
		last[a.Key] = a.DecidedAt
	}
	if wrong > 0 {
		w.t.Errorf("%d of %d alerts come after a newer one of their job", wrong, n)
	}
}

// After the stream was lost, consumers receive the alerts of each job in the order of their decisions: republished
// alerts, pending ones, and new ones.
func TestRepublishedAlertsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) store.Options{
		"sqlite":   func(t *testing.T) store.Options { return store.Options{DataDir: storetest.DataDir(t)} },
		"postgres": func(t *testing.T) store.Options { return store.Options{DatabaseURL: storetest.Postgres(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := database(t)
			o.Shards, o.Log = 2, discardLog()
			w := newRelayFixtureOn(t, o)
			w.raise(2500) // more than a batch in each shard
			jobs := w.jobs()
			relay := alerts.NewRelay(w.store, w.bus.AlertPublisher, w.shards, discardLog())
			w.drain(relay)
			w.settleAgain(alerts.Error, jobs...)
			w.drain(relay)
			w.loseStream()
			w.settleAgain(alerts.Critical, jobs...) // they are pending
			w.republish(5000)
			w.settleAgain(alerts.Info, jobs[:1000]...)
			_, stop := w.runThree()
			testwait.Until(t, "all are published", w.isDrained)
			w.checkOrder(8500)

			stop() // a batch still in transit belongs to the old stream
			w.loseStream()
			w.republish(8500)
			nodes, _ := w.runThree()
			for range 3 { // while the relays run
				w.settleAgain(alerts.Warning, jobs[:500]...)
				for _, r := range nodes {
					r.Wake()
				}
			}
			testwait.Until(t, "all are published again", w.isDrained)
			w.checkOrder(10_000)
		})
	}
}
