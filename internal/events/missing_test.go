package events_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/testwait"
)

// settled is the time for a reader to process existing events.
const settled = 100 * time.Millisecond

// checkGap fails the test unless the stream has exactly one alert about a gap, with its start and reason.
func (w *fixture) checkGap(stream, why string) {
	w.t.Helper()
	listed := w.systemAlerts()
	if len(listed) != 1 {
		w.t.Fatalf("%d alerts about streams, want 1: %+v", len(listed), listed)
	}
	a := listed[0]
	if a.Key != "stream/"+stream || a.Step != "lost" || a.Severity != alerts.Error || a.Status != alerts.Firing ||
		a.Since.IsZero() || !strings.Contains(a.Text, why) {
		w.t.Errorf("alert about %s, since %v: %s", a.Key, a.Since, a.Text)
	}
}

func (w *fixture) purge(stream string, to uint64) {
	w.t.Helper()
	s, err := w.js().Stream(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Purge(w.t.Context(), jetstream.WithPurgeSequence(to)); err != nil {
		w.t.Fatal(err)
	}
}

func TestPurgeOfReadEventsIsNoMonitoringGap(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	n := w.start()
	w.publishIDs("order.created", 0, 10)
	w.waitForJobs(10, 0)
	w.purge(bus.EventsStream, 11)
	w.publishIDs("order.created", 10, 12)
	w.waitForJobs(12, 0)
	n.stop()
	w.purge(bus.EventsStream, 13)
	w.start()
	w.publishIDs("order.created", 12, 14)
	w.waitForJobs(14, 0)
	if listed := w.systemAlerts(); len(listed) != 0 {
		t.Errorf("all events were read, and an alert was raised: %s", listed[0].Text)
	}
}

func TestPurgeOfUnreadEventsIsAlerted(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(_ *testing.T, w *fixture) {
		w.saveOrderRule("order")
		n := w.start()
		w.publishIDs("order.created", 0, 10)
		w.waitForJobs(10, 0)
		n.stop()
		w.publishIDs("order.created", 10, 20)
		w.purge(bus.EventsStream, 16)
		n = w.start()
		w.waitForJobs(15, 0)
		testwait.Until(w.t, "it is alerted", func() bool { return len(w.systemAlerts()) > 0 })
		n.stop()
		w.checkGap(bus.EventsStream, "lost 5 events on order.created, order.shipped to a limit, a purge or a deletion")
		w.start() // a repetition is not reported
		w.waitUntilCaughtUp(bus.EventsStream, w.publish("order.created", `{"id":20}`))
		w.checkGap(bus.EventsStream, "lost 5 events on order.created, order.shipped to a limit, a purge or a deletion")
	})
}

// A reader that is behind distinguishes dropped events from read ones.
func TestEventsDroppedWhileReadingAreCounted(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	w.publishIDs("order.created", 0, 30)
	r, err := w.bus.Streams.Read(t.Context(), bus.EventsStream, 0, []string{"order.*"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.purge(bus.EventsStream, 21) // before the first read
	read := 0
	testwait.Until(t, "the rest is read", func() bool {
		got, err := r.Next(t.Context(), 100, settled)
		if err != nil {
			t.Fatal(err)
		}
		read += len(got)
		return read == 10
	})
	if lost, err := r.Lost(t.Context()); events.Count(lost.Gone) != 20 || lost.AtMost || err != nil {
		t.Errorf("dropped were %+v, want 20 events: %v", lost, err)
	}
	w.publishIDs("order.created", 30, 35)
	w.purge(bus.EventsStream, 36)
	if _, err := r.Next(t.Context(), 100, settled); err != nil {
		t.Fatal(err)
	}
	if lost, err := r.Lost(t.Context()); err != nil || len(lost.Gone) != 0 {
		t.Errorf("Lost counts events that Next returned: %+v, %v", lost, err)
	}
}

// A stream was restored to an earlier state, and continued from there.
func TestRestoredStreamIsAlerted(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		s := w.operatorStreams()
		s.create(streamConfig("ORDERS", "order.*"))
		w.saveOrderRule("order")
		n := w.start()
		w.publishIDs("order.created", 0, 10)
		w.waitForJobs(10, 0)
		created := w.cursor("ORDERS").StreamCreatedAt
		n.stop()
		s.remove("ORDERS")
		s.create(streamConfig("ORDERS", "order.*"))
		w.publishIDs("order.created", 10, 22) // the same sequences, and more
		old := w.cursor("ORDERS")
		info, err := w.bus.Streams.Info(t.Context(), "ORDERS")
		if err != nil {
			t.Fatal(err)
		}
		to := old
		to.StreamCreatedAt = info.CreatedAt // as if it had the creation time of the old one
		if err := w.store.ResetCursor(t.Context(), old, to); err != nil || created.Equal(info.CreatedAt) {
			t.Fatal(err)
		}
		w.start()
		w.waitForJobs(22, 0)
		w.checkGap("ORDERS", "recreated, or restored")
	})
}

// agedStreams answers the first query for a stream with an older state of it.
type agedStreams struct {
	events.Streams
	older   events.Info
	queries atomic.Int32
}

// Info implements events.Streams.
func (s *agedStreams) Info(ctx context.Context, name string) (events.Info, error) {
	if s.queries.Add(1) == 1 {
		return s.older, nil
	}
	return s.Streams.Info(ctx, name)
}

// TestStreamThatGrowsBeforeItsCursorIsReadIsNotAlerted has a node learn the end of a stream, and another one apply a newer event
// before the node reads the cursor.
func TestStreamThatGrowsBeforeItsCursorIsReadIsNotAlerted(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.operatorStreams().create(streamConfig("ORDERS", "order.*"))
		w.saveOrderRule("order")
		n := w.start()
		w.publishIDs("order.created", 0, 5)
		w.waitForJobs(5, 0)
		older, err := w.bus.Streams.Info(t.Context(), "ORDERS")
		if err != nil {
			t.Fatal(err)
		}
		w.publishIDs("order.created", 5, 10)
		w.waitForJobs(10, 0)
		n.stop()
		w.startReading(&agedStreams{Streams: w.bus.Streams, older: older}, w.store)
		w.publishIDs("order.created", 10, 11)
		w.waitForJobs(11, 0)
		if all := w.systemAlerts(); len(all) > 0 {
			t.Errorf("an alert, and nothing was lost: %s", all[0].Text)
		}
	})
}

func TestDeletedStreamIsAlerted(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		s := w.operatorStreams()
		s.create(streamConfig("ORDERS", "order.*"))
		w.saveOrderRule("order")
		n := w.start()
		w.publishIDs("order.created", 0, 5)
		w.waitForJobs(5, 0)
		s.remove("ORDERS")
		testwait.Until(t, "the status shows it", func() bool {
			all := n.Status()
			return len(all) == 1 && errors.Is(all[0].Err, events.ErrGone)
		})
		testwait.Until(t, "an alert is raised", func() bool { return len(w.systemAlerts()) > 0 })
		w.checkGap("ORDERS", "was deleted")

		// Its jobs continue in the stream that captures its subjects.
		w.checkRebinds()
		before := w.cursor(bus.EventsStream).ReadThrough
		w.publishIDs("order.shipped", 0, 2)
		w.waitForJobs(3, 2)
		testwait.Until(t, "the stream in its place is read through", func() bool { return w.cursor(bus.EventsStream).ReadThrough.After(before) })
		testwait.Until(t, "the old stream has no reader", func() bool { all := n.Status(); return len(all) == 1 && all[0].Line == bus.EventsStream })
	})
}
