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
	"deadman/internal/testwait"
	"deadman/rules"
)

// streams creates and changes streams, as an operator would.
type streams struct {
	*fixture
	js jetstream.JetStream
}

func (w *fixture) operatorStreams() streams { return streams{w, w.js()} }

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

func streamConfig(name string, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{Name: name, Subjects: subjects}
}

// checkRebinds calls Rebind until rules were changed.
func (w *fixture) checkRebinds() {
	w.t.Helper()
	r := w.registry()
	testwait.Until(w.t, "a rule is bound to other streams", func() bool {
		moved, err := r.Rebind(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		return moved > 0
	})
}

// checkUnchanged fails the test if a rebind changes a rule.
func (w *fixture) checkUnchanged() {
	w.t.Helper()
	if moved, err := w.registry().Rebind(w.t.Context()); moved != 0 || err != nil {
		w.t.Fatalf("%d rules were bound to other streams, %v", moved, err)
	}
}

// reads returns the streams of the newest version of a rule.
func (w *fixture) reads(rule string) []string {
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

// checkJobs fails the test unless each of the first n orders had exactly one job.
func (w *fixture) checkJobs(pending, ended int) {
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

func (w *fixture) waitForJobs(pending, ended int) {
	w.t.Helper()
	testwait.Until(w.t, fmt.Sprintf("%d jobs are pending and %d ended", pending, ended), func() bool {
		p, e := w.jobs()
		return p == pending && e == ended
	})
}

// A subject moves to another stream that is already being read for another rule, beyond the subject's events. No
// event is lost or repeated, regardless of the reading position.
func TestSubjectMoves(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		s := w.operatorStreams()
		s.create(streamConfig("A", "order.*"))
		s.create(streamConfig("B", "parcel.*"))
		w.saveOrderRule("order")
		w.saveOrderRule("parcel")
		n := w.start()
		w.publishIDs("order.created", 0, 10)
		w.publishIDs("parcel.created", 0, 10)
		w.waitForJobs(20, 0)
		n.stop()
		w.publishIDs("order.created", 10, 20) // unread at the move
		s.update(streamConfig("A", "other"))
		s.update(streamConfig("B", "parcel.*", "order.*"))
		w.publishIDs("order.shipped", 0, 15) // some of them for unread orders
		n = w.start()
		w.publishIDs("parcel.created", 10, 20)
		w.waitForJobs(40, 0) // B was read beyond its orders
		w.checkRebinds()
		w.publishIDs("order.created", 20, 30)
		last := w.publish("parcel.shipped", `{"id":0}`)
		w.waitUntilCaughtUp("B", last)
		w.waitForJobs(50-16, 16)
		w.checkJobs(50-16, 16)
		w.checkUnchanged()
		if got := w.reads("order-unshipped"); fmt.Sprint(got) != "[order.created B order.shipped B]" {
			t.Errorf("it reads %v", got)
		}
		n.stop()
		w.start()
		w.waitUntilCaughtUp("B", w.publish("order.shipped", `{"id":29}`))
		w.checkJobs(50-17, 17)
		if listed := w.systemAlerts(); len(listed) != 0 {
			t.Errorf("nothing was lost, and an alert was raised: %s", listed[0].Text)
		}
	})
}

// Remaining events of the old stream are read before the new stream.
func TestSubjectMovesBehindItsEvents(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	s := w.operatorStreams()
	s.create(streamConfig("A", "order.*"))
	w.saveOrderRule("order")
	w.start().stop() // no intake is running
	w.publishIDs("order.created", 0, 5)
	s.update(streamConfig("A", "other"))
	s.create(streamConfig("B", "order.*"))
	w.publishIDs("order.shipped", 0, 3)
	w.checkUnchanged()
	w.start()
	w.waitForJobs(5, 0)
	w.checkRebinds()
	w.waitForJobs(2, 3)
	w.checkJobs(2, 3)
}

// A captured subject moves to a separate stream, and back.
func TestCapturedSubjectGetsStream(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		s := w.operatorStreams()
		w.saveOrderRule("order")
		w.start()
		total := 0
		publish := func() {
			w.publishIDs("order.created", total, total+7)
			total += 7
		}
		publish()
		w.waitForJobs(total, 0)
		for range 2 {
			s.remove(bus.EventsStream) // all of it was read
			s.create(streamConfig("ORDERS", "order.*"))
			publish()
			w.checkRebinds()
			publish()
			w.waitForJobs(total, 0)
			s.remove("ORDERS")
			w.checkRebinds()
			publish()
			w.waitForJobs(total, 0)
		}
		w.checkJobs(total, 0)
		if got := w.reads("order-unshipped"); fmt.Sprint(got) != "[order.created DEADMAN_EVENTS order.shipped DEADMAN_EVENTS]" {
			t.Errorf("it reads %v", got)
		}
		raised := map[string]int{}
		for _, a := range w.systemAlerts() {
			raised[a.Key+" "+a.Step]++
		}
		want := map[string]int{"stream/ORDERS lost": 2, "stream/DEADMAN_EVENTS lost": 2, "subject/order.created captured": 2, "subject/order.shipped captured": 2}
		if fmt.Sprint(raised) != fmt.Sprint(want) {
			t.Errorf("alerts %v, want %v", raised, want)
		}
	})
}

// Mirrors and sources contain the events of their origins, and none of them counts twice.
func TestSubjectMovesToCopy(t *testing.T) {
	t.Parallel()
	for name, copied := range map[string]jetstream.StreamConfig{
		"sources": {Name: "B", Sources: []*jetstream.StreamSource{{Name: "A"}}},
		"mirror":  {Name: "B", Mirror: &jetstream.StreamSource{Name: "A"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			s := w.operatorStreams()
			s.create(streamConfig("A", "order.*"))
			s.create(copied)
			w.saveOrderRule("order")
			n := w.start()
			w.publishIDs("order.created", 0, 10)
			w.waitForJobs(10, 0)
			n.stop()
			w.publishIDs("order.created", 10, 20) // A is deleted before they are read, B has them
			w.publishIDs("order.shipped", 0, 5)
			testwait.Until(t, "all is copied", func() bool {
				info, err := w.bus.Streams.Info(t.Context(), "B")
				return err == nil && info.LastSeq == 25
			})
			s.remove("A")
			s.update(streamConfig("B", "order.*"))
			w.publishIDs("order.created", 20, 25)
			w.start()
			w.checkRebinds()
			w.waitUntilCaughtUp("B", w.publish("order.shipped", `{"id":24}`))
			w.checkJobs(19, 6)
		})
	}
}

// Rules are created, changed and deleted while events flow: each event counts once, for the rules existing at its
// time.
func TestRulesChangeWhileEventsFlow(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		w.saveOrderRule("order")
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
			w.saveOrderRule(kind)
			w.publishIDs(kind+".created", 0, 5)
			w.saveRuleAfter("order", i+2)
			if i%3 == 0 {
				w.publishIDs(kind+".shipped", 0, 5)
				last := w.publish(kind+".created", `{"id":"last"}`)
				w.waitUntilCaughtUp(bus.EventsStream, last)
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
		w.waitUntilCaughtUp(bus.EventsStream, w.publish("order.shipped", `{"id":0}`))
		w.checkJobs(sent-1+8*5+4, 4*5+1)
		if listed := w.systemAlerts(); len(listed) != 0 {
			t.Errorf("nothing was lost, and an alert was raised: %s", listed[0].Text)
		}
	})
}

// A subject moves back and forth during publishing.
func TestSubjectMovesWhileEventsFlow(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, w *fixture) {
		s := w.operatorStreams()
		s.create(streamConfig("A", "order.*", "a"))
		s.create(streamConfig("B", "parcel.*", "b"))
		w.saveOrderRule("order")
		w.saveOrderRule("parcel")
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
			without, to := streamConfig("A", "a"), streamConfig("B", "parcel.*", "order.*", "b")
			if i%2 == 1 {
				without, to = streamConfig("B", "parcel.*", "b"), streamConfig("A", "order.*", "a")
			}
			s.update(without)
			s.update(to)
			w.checkRebinds()
		}
		stop()
		sending.Wait()
		w.waitForJobs(orders+parcels, 0)
		w.checkJobs(orders+parcels, 0)
		if listed := w.systemAlerts(); len(listed) != 0 {
			t.Errorf("nothing was lost, and an alert was raised: %s", listed[0].Text)
		}
	})
}
