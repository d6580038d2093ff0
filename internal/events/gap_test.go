package events_test

import (
	"strings"
	"testing"
	"time"

	"deadman/internal/bus"
	"deadman/internal/testwait"
)

// receivingSince waits for a later mark of the stream, and returns the start of its gap-free period.
func (w *fixture) receivingSince() time.Time {
	w.t.Helper()
	before := w.cursor(bus.EventsStream).ReadThrough
	testwait.Until(w.t, "the stream is marked as read", func() bool { return w.cursor(bus.EventsStream).ReadThrough.After(before) })
	return w.cursor(bus.EventsStream).ReceivingSince
}

// TestReceivingSince checks the causes of gaps: an unavailable broker and a loss of the stream. A change of the reader is
// no gap, as received messages are kept.
func TestReceivingSince(t *testing.T) {
	w := newFixture(t)
	w.saveOrderRule("order")
	n := w.start()
	first := w.receivingSince()
	if first.IsZero() {
		t.Error("the start of the stream is reported before anything was read")
	}
	if again := w.receivingSince(); !again.Equal(first) {
		t.Errorf("it is received since %s, and then since %s", first, again)
	}
	n.stop()
	w.start()
	if other := w.receivingSince(); !other.Equal(first) {
		t.Errorf("another reader starts at %s, want %s", other, first)
	}

	addr := strings.TrimPrefix(w.server.ClientURL(), "nats://")
	w.server.Close()
	testwait.Until(t, "the broker is gone", func() bool { return w.bus.Conn.ConnectedFor() == 0 })
	w.server = w.serve(addr)
	testwait.Until(t, "the broker is back", func() bool { return w.bus.Conn.ConnectedFor() > 0 })
	since := w.receivingSince()
	if !since.After(first) {
		t.Errorf("the broker was away, and it is received since %s", since)
	}

	if err := w.js().DeleteStream(t.Context(), bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the stream is lost", func() bool { return w.cursor(bus.EventsStream).ReceivingSince.After(since) })
}
