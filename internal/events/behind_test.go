package events_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/testwait"
)

// haltingStore is a database that accepts a few batches and then blocks.
type haltingStore struct {
	futurejobs.EffectStore
	batches atomic.Int32
	deaf    atomic.Int32  // number of loss reports that fail first
	on      chan struct{} // closed: it continues
}

// ReportLost implements futurejobs.EffectStore.
func (h *haltingStore) ReportLost(ctx context.Context, stream string, n int64, r alerts.SystemAlert) (alerts.Alert, bool, error) {
	if h.deaf.Add(-1) >= 0 {
		return alerts.Alert{}, false, errors.New("the database is away")
	}
	return h.EffectStore.ReportLost(ctx, stream, n, r)
}

func haltAfter(l futurejobs.EffectStore, after int32) *haltingStore {
	h := &haltingStore{EffectStore: l, on: make(chan struct{})}
	h.batches.Store(after)
	return h
}

// Apply implements futurejobs.EffectStore.
func (h *haltingStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	if h.batches.Add(-1) < 0 {
		select {
		case <-h.on:
		case <-ctx.Done():
			return futurejobs.ApplyResult{}, ctx.Err()
		}
	}
	return h.EffectStore.Apply(ctx, b)
}

func (h *haltingStore) isHalted() bool { return h.batches.Load() < 0 }

// publishLarge publishes events so large that few fit into a batch.
func (w *fixture) publishLarge(n int) {
	w.t.Helper()
	for i := range n {
		w.publish("order.created", fmt.Sprintf(`{"id":%d,"text":%q}`, i, strings.Repeat("x", events.MaxBody-100)))
	}
}

// The progress of a stream is reported while it is behind: the time of the last applied event, even if few large
// events fit into a batch.
func TestLaggingStreamIsReported(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	w.publishLarge(120)
	_, last, err := w.bus.Streams.First(t.Context(), bus.EventsStream, 120)
	if err != nil {
		t.Fatal(err)
	}
	database := haltAfter(w.store, 1)
	n := w.startOn(database)
	testwait.Until(t, "it stands still", database.isHalted)
	if got := n.Status()[0].CaughtUp; !got.Before(last) || !got.Equal(w.cursor(bus.EventsStream).LastAt) {
		t.Errorf("read through %s, of events until %s; applied are those until %s", got, last, w.cursor(bus.EventsStream).LastAt)
	}
	n.stop()
	n = w.start()
	w.waitUntilCaughtUp(bus.EventsStream, 120)
	testwait.Until(t, "it is read to its end", func() bool { return n.Status()[0].CaughtUp.After(last) })
}

// Losses before reading are reported, even if the first report fails and the stream is reopened.
func TestLossesBeforeReadingAreAlerted(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	w.publishLarge(110)
	for i := range 6 { // far beyond the prefetched events
		w.publish("order.shipped", fmt.Sprintf(`{"id":%d}`, i))
	}
	w.publishLarge(120)
	database := haltAfter(w.store, 0)
	database.deaf.Store(1)
	w.startOn(database)
	testwait.Until(t, "it stands still", database.isHalted)
	s, err := w.js().Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSubject("order.shipped")); err != nil {
		t.Fatal(err)
	}
	close(database.on)
	w.waitForJobs(120, 0)
	testwait.Until(t, "it is alerted", func() bool { return len(w.systemAlerts()) > 0 })
	if database.deaf.Load() >= 0 {
		t.Fatal("no report failed")
	}
	w.checkGap(bus.EventsStream, "lost ")
}
