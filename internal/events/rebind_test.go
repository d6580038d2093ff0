package events_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/rules"
)

// streams creates and changes streams, as an operator would.
type streams struct {
	*world
	js jetstream.JetStream
}

func (w *world) operator() streams { return streams{w, w.js()} }

func (s streams) create(cfg jetstream.StreamConfig) {
	s.t.Helper()
	if _, err := s.js.CreateStream(s.t.Context(), cfg); err != nil {
		s.t.Fatal(err)
	}
}

func (s streams) update(cfg jetstream.StreamConfig) {
	s.t.Helper()
	if _, err := s.js.UpdateStream(s.t.Context(), cfg); err != nil {
		s.t.Fatal(err)
	}
}

func (s streams) remove(stream string) {
	s.t.Helper()
	if err := s.js.DeleteStream(s.t.Context(), stream); err != nil {
		s.t.Fatal(err)
	}
}

func named(name string, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: name, Subjects: subjects}
}

// rebinds calls Rebind until rules were changed.
func (w *world) rebinds() {
	w.t.Helper()
	r := w.registry()
	eventually(w.t, "a rule is bound to other streams", func() bool {
		moved, err := r.Rebind(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		return moved > 0
	})
}

// stays fails the test if a rebind changes a rule.
func (w *world) stays() {
	w.t.Helper()
	if moved, err := w.registry().Rebind(w.t.Context()); moved != 0 || err != nil {
		w.t.Fatalf("%d rules were bound to other streams, %v", moved, err)
	}
}

// reads returns the streams of the newest version of a rule.
func (w *world) reads(rule string) []string {
	w.t.Helper()
	l, err := w.registry().Get(w.t.Context(), rule)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, r := range l.Reads {
		all = append(all, r.Subject+" "+r.Stream)
	}
	return all
}

// jobsAre fails the test unless each of the first n orders had exactly one job.
func (w *world) jobsAre(pending, ended int) {
	w.t.Helper()
	if p, e := w.jobs(); p != pending || e != ended {
		w.t.Errorf("%d jobs are pending and %d ended, want %d and %d", p, e, pending, ended)
	}
	b, err := w.store.Balance(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if b.Created != int64(pending+ended) {
		w.t.Errorf("%d jobs were created, want %d", b.Created, pending+ended)
	}
}

func (w *world) become(pending, ended int) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%d jobs are pending and %d ended", pending, ended), func() bool {
		p, e := w.jobs()
		return p == pending && e == ended
	})
}

// A subject moves to another stream that is already being read for another rule, beyond the subject's events. No
// event is lost or repeated, regardless of the reading position.
func TestASubjectMoves(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		s := w.operator()
		s.create(named("A", "order.*"))
		s.create(named("B", "parcel.*"))
		w.rule("order")
		w.rule("parcel")
		n := w.start()
		w.publishIDs("order.created", 0, 10)
		w.publishIDs("parcel.created", 0, 10)
		w.become(20, 0)
		n.stop()
		w.publishIDs("order.created", 10, 20) // unread at the move
		s.update(named("A", "other"))
		s.update(named("B", "parcel.*", "order.*"))
		w.publishIDs("order.shipped", 0, 15) // some of them for unread orders
		n = w.start()
		w.publishIDs("parcel.created", 10, 20)
		w.become(40, 0) // B was read beyond its orders
		w.rebinds()
		w.publishIDs("order.created", 20, 30)
		last := w.publish("parcel.shipped", `{"id":0}`)
		w.caughtUp("B", last)
		w.become(50-16, 16)
		w.jobsAre(50-16, 16)
		w.stays()
		if got := w.reads("order-unshipped"); fmt.Sprint(got) != "[order.created B order.shipped B]" {
			t.Errorf("it reads %v", got)
		}
		n.stop()
		w.start()
		w.caughtUp("B", w.publish("order.shipped", `{"id":29}`))
		w.jobsAre(50-17, 17)
		if listed := w.said(); len(listed) != 0 {
			t.Errorf("nothing was lost, and it was said: %s", listed[0].Text)
		}
	})
}

// Remaining events of the old stream are read before the new stream.
func TestASubjectMovesBehindItsEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.operator()
	s.create(named("A", "order.*"))
	w.rule("order")
	w.start().stop() // no intake is running
	w.publishIDs("order.created", 0, 5)
	s.update(named("A", "other"))
	s.create(named("B", "order.*"))
	w.publishIDs("order.shipped", 0, 3)
	w.stays()
	w.start()
	w.become(5, 0)
	w.rebinds()
	w.become(2, 3)
	w.jobsAre(2, 3)
}

// A captured subject moves to a separate stream, and back.
func TestACapturedSubjectGetsAStream(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		s := w.operator()
		w.rule("order")
		w.start()
		total := 0
		publish := func() {
			w.publishIDs("order.created", total, total+7)
			total += 7
		}
		publish()
		w.become(total, 0)
		for range 2 {
			s.remove(bus.EventsStream) // all of it was read
			s.create(named("ORDERS", "order.*"))
			publish()
			w.rebinds()
			publish()
			w.become(total, 0)
			s.remove("ORDERS")
			w.rebinds()
			publish()
			w.become(total, 0)
		}
		w.jobsAre(total, 0)
		if got := w.reads("order-unshipped"); fmt.Sprint(got) != "[order.created DEADMAN_EVENTS order.shipped DEADMAN_EVENTS]" {
			t.Errorf("it reads %v", got)
		}
		said := map[string]int{}
		for _, a := range w.said() {
			said[a.Key+" "+a.Step]++
		}
		want := map[string]int{"stream/ORDERS lost": 2, "stream/DEADMAN_EVENTS lost": 2, "subject/order.created captured": 2, "subject/order.shipped captured": 2}
		if fmt.Sprint(said) != fmt.Sprint(want) {
			t.Errorf("said %v, want %v", said, want)
		}
	})
}

// Mirrors and sources contain the events of their origins, and none of them counts twice.
func TestASubjectMovesToACopy(t *testing.T) {
	t.Parallel()
	for name, copied := range map[string]jetstream.StreamConfig{
		"sources": {Name: "B", Sources: []*jetstream.StreamSource{{Name: "A"}}},
		"mirror":  {Name: "B", Mirror: &jetstream.StreamSource{Name: "A"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.operator()
			s.create(named("A", "order.*"))
			s.create(copied)
			w.rule("order")
			n := w.start()
			w.publishIDs("order.created", 0, 10)
			w.become(10, 0)
			n.stop()
			w.publishIDs("order.created", 10, 20) // A is deleted before they are read, B has them
			w.publishIDs("order.shipped", 0, 5)
			eventually(t, "all is copied", func() bool {
				info, err := w.bus.Streams.Info(t.Context(), "B")
				return err == nil && info.LastSeq == 25
			})
			s.remove("A")
			s.update(named("B", "order.*"))
			w.publishIDs("order.created", 20, 25)
			w.start()
			w.rebinds()
			w.caughtUp("B", w.publish("order.shipped", `{"id":24}`))
			w.jobsAre(19, 6)
		})
	}
}

// Rules are created, changed and deleted while events flow: each event counts once, for the rules existing at its
// time.
func TestRulesChangeWhileEventsFlow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		w.rule("order")
		w.start()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var sent int
		var sending sync.WaitGroup
		sending.Go(func() {
			for ; ctx.Err() == nil; sent++ {
				if _, err := w.send("order.created", fmt.Sprintf(`{"id":%d}`, sent)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for i := range 12 {
			kind := fmt.Sprintf("kind%d", i)
			w.rule(kind)
			w.publishIDs(kind+".created", 0, 5)
			w.ruleAfter("order", i+2)
			if i%3 == 0 {
				w.publishIDs(kind+".shipped", 0, 5)
				last := w.publish(kind+".created", `{"id":"last"}`)
				w.caughtUp(bus.EventsStream, last)
				if err := os.Remove(filepath.Join(w.rules, kind+".yaml")); err != nil {
					t.Fatal(err)
				}
				if err := w.registry().Delete(t.Context(), kind+"-unshipped", rules.AnyVersion, rules.BundleOf(w.rules)); err != nil {
					t.Fatal(err)
				}
			}
		}
		stop()
		sending.Wait()
		w.caughtUp(bus.EventsStream, w.publish("order.shipped", `{"id":0}`))
		w.jobsAre(sent-1+8*5+4, 4*5+1)
		if listed := w.said(); len(listed) != 0 {
			t.Errorf("nothing was lost, and it was said: %s", listed[0].Text)
		}
	})
}

// A subject moves back and forth during publishing.
func TestASubjectMovesWhileEventsFlow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		s := w.operator()
		s.create(named("A", "order.*", "a"))
		s.create(named("B", "parcel.*", "b"))
		w.rule("order")
		w.rule("parcel")
		w.start()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		js := bustest.JetStream(t, w.server.ClientURL())
		var orders, parcels int
		var sending sync.WaitGroup
		sending.Go(func() {
			for ctx.Err() == nil {
				// While no stream captures the subject, publishing fails and is retried.
				if _, err := js.Publish(t.Context(), "order.created", fmt.Appendf(nil, `{"id":%d}`, orders), jetstream.WithRetryAttempts(0)); err == nil {
					orders++
				}
				if _, err := w.send("parcel.created", fmt.Sprintf(`{"id":%d}`, parcels)); err == nil {
					parcels++
				}
			}
		})
		for i := range 6 {
			without, to := named("A", "a"), named("B", "parcel.*", "order.*", "b")
			if i%2 == 1 {
				without, to = named("B", "parcel.*", "b"), named("A", "order.*", "a")
			}
			s.update(without)
			s.update(to)
			w.rebinds()
		}
		stop()
		sending.Wait()
		w.become(orders+parcels, 0)
		w.jobsAre(orders+parcels, 0)
		if listed := w.said(); len(listed) != 0 {
			t.Errorf("nothing was lost, and it was said: %s", listed[0].Text)
		}
	})
}
