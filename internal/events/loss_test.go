package events_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/testwait"
)

// stream creates the stream ORDERS.
func (w *fixture) stream(cfg jetstream.StreamConfig) jetstream.Stream {
	w.t.Helper()
	cfg.Name = "ORDERS"
	if cfg.Subjects == nil {
		cfg.Subjects = []string{"order.>"}
	}
	s, err := w.js().CreateStream(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// lostEvents returns the sum of the losses reported by alerts.
func (w *fixture) lostEvents() (n int) {
	w.t.Helper()
	for _, a := range w.systemAlerts() {
		n += a.Count
	}
	return n
}

// waitUntilDrained waits until all messages of the stream are accounted for.
func (w *fixture) waitUntilDrained(stream string) {
	w.t.Helper()
	info, err := w.bus.Streams.Info(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	w.waitUntilCaughtUp(stream, info.LastSeq)
}

// A full stream drops one message for each new one, so the number of pending messages is constant.
func TestOverflowWhileReadingIsCounted(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.stream(jetstream.StreamConfig{MaxMsgs: 100})
	w.publishIDs("order.created", 0, 100)
	r, err := w.bus.Streams.Read(t.Context(), "ORDERS", 0, []string{"order.>"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.publishIDs("order.created", 100, 350)
	read := 0
	testwait.Until(t, "the rest is read", func() bool {
		got, err := r.Next(t.Context(), 1000, settled)
		if err != nil {
			t.Fatal(err)
		}
		read += len(got)
		return len(got) > 0 && got[len(got)-1].Seq == 350
	})
	lost, err := r.Lost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := events.Count(lost.Gone); read+int(n) != 350 || lost.AtMost {
		t.Errorf("of 350 events %d were read, and lost were %+v", read, lost)
	}
}

// The stream overflows while the database is slow, including a case in which a saved rule reopens the stream.
func TestOverflowBehindSlowDatabaseIsAlerted(t *testing.T) {
	t.Parallel()
	for _, save := range []bool{false, true} {
		t.Run(fmt.Sprintf("rule saved %v", save), func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, w *fixture) {
				w.stream(jetstream.StreamConfig{Subjects: []string{"order.*", "parcel.*"}, MaxMsgs: 20})
				w.saveOrderRule("order")
				database := haltAfter(w.store, 1)
				n := w.startOn(database)
				w.waitUntilCaughtUp("ORDERS", w.publish("order.created", `{"id":"first"}`))
				w.publish("order.created", `{"id":"second"}`)
				testwait.Until(t, "it stands still", database.isHalted)
				text := strings.Repeat("x", events.MaxBody-100)
				for i := range 200 { // more than the events of a prefetched batch, a pull and the stream
					w.publish("order.created", fmt.Sprintf(`{"id":%d,"text":%q}`, i, text))
				}
				if save {
					w.saveOrderRule("parcel")
				}
				close(database.on)
				w.waitUntilCaughtUp("ORDERS", w.publish("order.created", `{"id":"last"}`))
				n.stop()
				pending, _ := w.jobs()
				if got := pending + w.lostEvents(); pending >= 203 || got != 203 {
					t.Errorf("of 203 events %d became jobs, and the alerts report %d lost ones: %+v", pending, w.lostEvents(), w.systemAlerts())
				}
				for _, a := range w.systemAlerts() {
					if a.Key != "stream/ORDERS" || a.Severity != alerts.Error || !strings.Contains(a.Text, "order-unshipped") {
						t.Errorf("alert about %s: %s", a.Key, a.Text)
					}
				}
			})
		})
	}
}

// A message purged by subject, deleted, or replaced by the next one on its subject leaves the first sequence of the
// stream unchanged.
func TestLossInMiddleIsAlerted(t *testing.T) {
	t.Parallel()
	created := func(w *fixture) {
		for i := range 10 {
			w.publish("order.created", fmt.Sprintf(`{"id":"lost-%d"}`, i))
		}
	}
	for name, c := range map[string]struct {
		cfg  jetstream.StreamConfig
		lose func(*fixture, jetstream.Stream)
	}{
		"purge by subject": {jetstream.StreamConfig{}, func(w *fixture, s jetstream.Stream) {
			created(w)
			if err := s.Purge(w.t.Context(), jetstream.WithPurgeSubject("order.created")); err != nil {
				w.t.Fatal(err)
			}
		}},
		"purge by subject and sequence": {jetstream.StreamConfig{}, func(w *fixture, s jetstream.Stream) {
			created(w)
			last := w.publish("order.created", `{"id":"kept"}`)
			if err := s.Purge(w.t.Context(), jetstream.WithPurgeSubject("order.created"), jetstream.WithPurgeSequence(last)); err != nil {
				w.t.Fatal(err)
			}
		}},
		"limit per subject": {jetstream.StreamConfig{MaxMsgsPerSubject: 1}, func(w *fixture, _ jetstream.Stream) {
			created(w)
			w.publish("order.created", `{"id":"kept"}`)
		}},
		"messages deleted": {jetstream.StreamConfig{}, func(w *fixture, s jetstream.Stream) {
			created(w)
			info, err := s.Info(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			for i := range uint64(10) {
				if err := s.DeleteMsg(w.t.Context(), info.State.LastSeq-i); err != nil {
					w.t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothDatabases(t, func(t *testing.T, w *fixture) {
				cfg := c.cfg
				cfg.Subjects = []string{"order.created", "order.shipped"}
				s := w.stream(cfg)
				w.saveOrderRule("order")
				n := w.start()
				w.waitUntilCaughtUp("ORDERS", w.publish("order.shipped", `{"id":"first"}`))
				n.stop()
				w.publish("order.shipped", `{"id":"x"}`)
				c.lose(w, s)
				last := w.publish("order.shipped", `{"id":"nobody"}`)
				n = w.start()
				w.waitUntilCaughtUp("ORDERS", last)
				n.stop()
				// The limit per subject removes x as well.
				if got := w.lostEvents(); got != 10 && !(cfg.MaxMsgsPerSubject > 0 && got == 11) {
					t.Errorf("10 events were lost, and the alerts report %d: %+v", got, w.systemAlerts())
				}
				w.checkGap("ORDERS", "events on order.created, order.shipped")
			})
		})
	}
}

// The removal of messages that no rule reads, or that were read, is not a loss.
func TestForeignMessagesAreNoLoss(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		s := w.stream(jetstream.StreamConfig{MaxMsgs: 500})
		w.saveOrderRule("order")
		n := w.start()
		for i := range 300 {
			w.publish("order.other", `{}`)
			w.publish("order.other", `{}`)
			seq := w.publish("order.created", fmt.Sprintf(`{"id":%d}`, i))
			if i%50 == 49 {
				w.waitUntilCaughtUp("ORDERS", seq)
				for _, gone := range []uint64{seq, seq - 1, seq - 5} {
					if err := s.DeleteMsg(t.Context(), gone); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		n.stop()
		w.publish("order.other", `{}`)
		w.start()
		w.waitUntilCaughtUp("ORDERS", w.publish("order.created", `{"id":"last"}`))
		if pending, _ := w.jobs(); pending != 301 || len(w.systemAlerts()) > 0 {
			t.Errorf("301 events came and %d became jobs: %+v", pending, w.systemAlerts())
		}
	})
}

// In a stream with other subjects, the subject of a lost message is unknown.
func TestLossAmongForeignMessagesIsUpperBound(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.stream(jetstream.StreamConfig{})
	w.saveOrderRule("order")
	n := w.start()
	w.waitUntilCaughtUp("ORDERS", w.publish("order.created", `{"id":"first"}`))
	n.stop()
	for i := range 10 {
		w.publish("order.created", fmt.Sprintf(`{"id":%d}`, i))
		w.publish("order.other", `{}`)
	}
	w.purge("ORDERS", 17) // 15 of them, 8 of those events
	n = w.start()
	w.waitUntilCaughtUp("ORDERS", 20)
	n.stop()
	if pending, _ := w.jobs(); pending != 3 || w.lostEvents() != 15 {
		t.Errorf("%d jobs, and %d messages are reported as lost, want 3 and 15", pending, w.lostEvents())
	}
	w.checkGap("ORDERS", "lost 15 messages, of which some or all may be events")
}

// All remaining messages are lost, and none follows.
func TestLossAtEndIsAlerted(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		s := w.stream(jetstream.StreamConfig{})
		w.saveOrderRule("order")
		n := w.start()
		w.waitUntilCaughtUp("ORDERS", w.publish("order.created", `{"id":"first"}`))
		n.stop()
		w.publishIDs("order.created", 0, 5)
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.start()
		testwait.Until(t, "it is alerted", func() bool { return w.lostEvents() == 5 })
		w.waitUntilDrained("ORDERS")
		if pending, _ := w.jobs(); pending != 1 {
			t.Errorf("%d jobs", pending)
		}
	})
}

// lossyAckStore commits the batches and returns no answer for one with losses until its context ends.
type lossyAckStore struct {
	futurejobs.EffectStore
	committed chan struct{}
}

// Apply implements futurejobs.EffectStore.
func (u *lossyAckStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	done, err := u.EffectStore.Apply(ctx, b)
	if err == nil && b.Lost > 0 {
		close(u.committed)
		<-ctx.Done()
		err = ctx.Err()
	}
	return done, err
}

// A node stops while the database commits a batch. The losses of the batch are counted in its cursor, but the reader has
// no answer; it alerts them nevertheless, because no other reader may follow.
func TestLossInCommitWithoutAnswerIsAlerted(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		stream := w.stream(jetstream.StreamConfig{})
		w.saveOrderRule("order")
		w.publishIDs("order.created", 0, 10)
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(7)); err != nil {
			t.Fatal(err)
		}
		u := &lossyAckStore{EffectStore: w.store, committed: make(chan struct{})}
		n := w.startOn(u)
		<-u.committed
		n.stop()
		if w.lostEvents() != 6 {
			t.Errorf("%d events are reported lost, want 6; the cursor has %d", w.lostEvents(), w.cursor("ORDERS").Lost)
		}
		w.start() // the next reader applies what the first batch lacked, and reports no loss again
		w.waitUntilCaughtUp("ORDERS", 10)
		if applied, _ := w.jobs(); applied != 4 || w.lostEvents() != 6 {
			t.Errorf("%d events are applied and %d reported lost, want 4 and 6; the cursor has %d", applied, w.lostEvents(), w.cursor("ORDERS").Lost)
		}
	})
}
