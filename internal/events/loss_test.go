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
)

// stream creates the stream ORDERS.
func (w *world) stream(cfg jetstream.StreamConfig) jetstream.Stream {
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

// lost returns the sum of the losses reported by alerts.
func (w *world) lost() (n int) {
	w.t.Helper()
	for _, a := range w.said() {
		n += a.Count
	}
	return n
}

// drained waits until all messages of the stream are accounted for.
func (w *world) drained(stream string) {
	w.t.Helper()
	info, err := w.bus.Streams.Info(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	w.caughtUp(stream, info.LastSeq)
}

// A full stream drops one message for each new one, so the number of pending messages is constant.
func TestOverflowWhileReadingIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stream(jetstream.StreamConfig{MaxMsgs: 100})
	w.publishIDs("order.created", 0, 100)
	r, err := w.bus.Streams.Read(t.Context(), "ORDERS", 0, []string{"order.>"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.publishIDs("order.created", 100, 350)
	read := 0
	eventually(t, "the rest is read", func() bool {
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
func TestOverflowBehindASlowDatabaseIsAlerted(t *testing.T) {
	t.Parallel()
	for _, save := range []bool{false, true} {
		t.Run(fmt.Sprintf("rule saved %v", save), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world) {
				w.stream(jetstream.StreamConfig{Subjects: []string{"order.*", "parcel.*"}, MaxMsgs: 20})
				w.rule("order")
				database := halt(w.store, 1)
				n := w.startOn(database)
				w.caughtUp("ORDERS", w.publish("order.created", `{"id":"first"}`))
				w.publish("order.created", `{"id":"second"}`)
				eventually(t, "it stands still", database.halts)
				text := strings.Repeat("x", events.MaxBody-100)
				for i := range 200 { // more than the events of a prefetched batch, a pull and the stream
					w.publish("order.created", fmt.Sprintf(`{"id":%d,"text":%q}`, i, text))
				}
				if save {
					w.rule("parcel")
				}
				close(database.on)
				w.caughtUp("ORDERS", w.publish("order.created", `{"id":"last"}`))
				n.stop()
				pending, _ := w.jobs()
				if got := pending + w.lost(); pending >= 203 || got != 203 {
					t.Errorf("of 203 events %d became jobs, and the alerts say that %d were lost: %+v", pending, w.lost(), w.said())
				}
				for _, a := range w.said() {
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
func TestLossInTheMiddleIsAlerted(t *testing.T) {
	t.Parallel()
	created := func(w *world) {
		for i := range 10 {
			w.publish("order.created", fmt.Sprintf(`{"id":"lost-%d"}`, i))
		}
	}
	for name, c := range map[string]struct {
		cfg  jetstream.StreamConfig
		lose func(*world, jetstream.Stream)
	}{
		"purge by subject": {jetstream.StreamConfig{}, func(w *world, s jetstream.Stream) {
			created(w)
			if err := s.Purge(w.t.Context(), jetstream.WithPurgeSubject("order.created")); err != nil {
				w.t.Fatal(err)
			}
		}},
		"purge by subject and sequence": {jetstream.StreamConfig{}, func(w *world, s jetstream.Stream) {
			created(w)
			last := w.publish("order.created", `{"id":"kept"}`)
			if err := s.Purge(w.t.Context(), jetstream.WithPurgeSubject("order.created"), jetstream.WithPurgeSequence(last)); err != nil {
				w.t.Fatal(err)
			}
		}},
		"limit per subject": {jetstream.StreamConfig{MaxMsgsPerSubject: 1}, func(w *world, _ jetstream.Stream) {
			created(w)
			w.publish("order.created", `{"id":"kept"}`)
		}},
		"messages deleted": {jetstream.StreamConfig{}, func(w *world, s jetstream.Stream) {
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
			onBoth(t, func(t *testing.T, w *world) {
				cfg := c.cfg
				cfg.Subjects = []string{"order.created", "order.shipped"}
				s := w.stream(cfg)
				w.rule("order")
				n := w.start()
				w.caughtUp("ORDERS", w.publish("order.shipped", `{"id":"first"}`))
				n.stop()
				w.publish("order.shipped", `{"id":"x"}`)
				c.lose(w, s)
				last := w.publish("order.shipped", `{"id":"nobody"}`)
				n = w.start()
				w.caughtUp("ORDERS", last)
				n.stop()
				// The limit per subject removes x as well.
				if got := w.lost(); got != 10 && !(cfg.MaxMsgsPerSubject > 0 && got == 11) {
					t.Errorf("10 events were lost, and the alerts say %d: %+v", got, w.said())
				}
				w.blind("ORDERS", "events on order.created, order.shipped")
			})
		})
	}
}

// The removal of messages that no rule reads, or that were read, is not a loss.
func TestForeignMessagesAreNoLoss(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		s := w.stream(jetstream.StreamConfig{MaxMsgs: 500})
		w.rule("order")
		n := w.start()
		for i := range 300 {
			w.publish("order.other", `{}`)
			w.publish("order.other", `{}`)
			seq := w.publish("order.created", fmt.Sprintf(`{"id":%d}`, i))
			if i%50 == 49 {
				w.caughtUp("ORDERS", seq)
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
		w.caughtUp("ORDERS", w.publish("order.created", `{"id":"last"}`))
		if pending, _ := w.jobs(); pending != 301 || len(w.said()) > 0 {
			t.Errorf("301 events came and %d became jobs: %+v", pending, w.said())
		}
	})
}

// In a stream with other subjects, the subject of a lost message is unknown.
func TestLossAmongForeignMessagesIsAnUpperBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stream(jetstream.StreamConfig{})
	w.rule("order")
	n := w.start()
	w.caughtUp("ORDERS", w.publish("order.created", `{"id":"first"}`))
	n.stop()
	for i := range 10 {
		w.publish("order.created", fmt.Sprintf(`{"id":%d}`, i))
		w.publish("order.other", `{}`)
	}
	w.purge("ORDERS", 17) // 15 of them, 8 of those events
	n = w.start()
	w.caughtUp("ORDERS", 20)
	n.stop()
	if pending, _ := w.jobs(); pending != 3 || w.lost() != 15 {
		t.Errorf("%d jobs, and %d messages are reported as lost, want 3 and 15", pending, w.lost())
	}
	w.blind("ORDERS", "lost 15 messages, of which some or all may be events")
}

// All remaining messages are lost, and none follows.
func TestLossAtTheEndIsAlerted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		s := w.stream(jetstream.StreamConfig{})
		w.rule("order")
		n := w.start()
		w.caughtUp("ORDERS", w.publish("order.created", `{"id":"first"}`))
		n.stop()
		w.publishIDs("order.created", 0, 5)
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.start()
		eventually(t, "it is alerted", func() bool { return w.lost() == 5 })
		w.drained("ORDERS")
		if pending, _ := w.jobs(); pending != 1 {
			t.Errorf("%d jobs", pending)
		}
	})
}

// unansweredLoss commits the batches and returns no answer for one with losses until its context ends.
type unansweredLoss struct {
	futurejobs.EffectStore
	committed chan struct{}
}

// Apply implements futurejobs.EffectStore.
func (u *unansweredLoss) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
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
func TestALossInACommitWithoutAnAnswerIsAlerted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		stream := w.stream(jetstream.StreamConfig{})
		w.rule("order")
		w.publishIDs("order.created", 0, 10)
		if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(7)); err != nil {
			t.Fatal(err)
		}
		u := &unansweredLoss{EffectStore: w.store, committed: make(chan struct{})}
		n := w.startOn(u)
		<-u.committed
		n.stop()
		if applied, _ := w.jobs(); applied != 4 || w.lost() != 6 {
			t.Errorf("%d events are applied and %d reported lost, want 4 and 6; the cursor has %d", applied, w.lost(), w.cursor("ORDERS").Lost)
		}
	})
}
