package events_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"deadman/bus"
	"deadman/events"
	futurejobs "deadman/future_jobs"
)

// halting is the database, which takes in a few batches and then nothing until ctx ends.
type halting struct {
	futurejobs.Ledger
	batches atomic.Int32
}

// Apply implements futurejobs.Ledger.
func (h *halting) Apply(ctx context.Context, b futurejobs.Batch) (futurejobs.Applied, error) {
	if h.batches.Add(-1) < 0 {
		<-ctx.Done()
		return futurejobs.Applied{}, ctx.Err()
	}
	return h.Ledger.Apply(ctx, b)
}

// How far a stream was read is said as it is while it is behind: by the last event that was
// applied, however few large ones fit into a batch.
func TestAStreamThatIsBehindSaysSo(t *testing.T) {
	w := newWorld(t)
	w.rule("order")
	body := `{"id":"x","text":"` + strings.Repeat("x", events.MaxBody-100) + `"}`
	for range 120 {
		w.publish("order.created", body)
	}
	_, last, err := w.bus.First(t.Context(), bus.EventsStream, 120)
	if err != nil {
		t.Fatal(err)
	}
	halts := &halting{Ledger: w.store}
	halts.batches.Store(1)
	n := w.startOn(halts)
	eventually(t, "it stands still", func() bool { return halts.batches.Load() < 0 })
	if got := n.Status()[0].CaughtUp; !got.Before(last) || !got.Equal(w.cursor(bus.EventsStream).LastAt) {
		t.Errorf("read through %s, of events until %s; applied are those until %s", got, last, w.cursor(bus.EventsStream).LastAt)
	}
	n.stop()
	n = w.start()
	w.caughtUp(bus.EventsStream, 120)
	eventually(t, "it is read to its end", func() bool { return n.Status()[0].CaughtUp.After(last) })
}
