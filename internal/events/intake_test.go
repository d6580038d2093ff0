package events_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/testwait"
)

func TestEventsBecomeJobsOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	n := w.start()
	w.publishIDs("order.created", 0, 150)
	n.stop()
	w.publishIDs("order.created", 150, 300)
	w.publishIDs("order.shipped", 0, 100)
	n = w.start()
	w.publishIDs("order.shipped", 100, 120)
	w.publishIDs("order.created", 200, 210) // with jobs already
	last := w.publish("order.shipped", `{"id":"never created"}`)
	w.waitUntilCaughtUp(bus.EventsStream, last)

	pending, ended := w.jobs()
	if pending != 180 || ended != 120 {
		t.Errorf("%d pending and %d ended, want 180 and 120", pending, ended)
	}
	if c := w.cursor(bus.EventsStream); c.Created != 300 || c.LastSeq != last || c.LastAt.IsZero() || c.StreamCreatedAt.IsZero() {
		t.Errorf("cursor %+v", c)
	}
	testwait.Until(t, "what was taken in is counted", func() bool { return n.counts.count(events.Kept) == 10 && n.counts.count(events.Unmatched) == 1 })
	n.stop()

	w.start() // all events were ingested already
	last = w.publish("order.created", `{"id":"one more"}`)
	w.waitUntilCaughtUp(bus.EventsStream, last)
	if pending, ended = w.jobs(); pending != 181 || ended != 120 {
		t.Errorf("%d pending and %d ended, want 181 and 120", pending, ended)
	}
}

// A stream larger than one transaction is read while it is applied, and the events of a key keep their order.
func TestManyEventsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	js := w.js()
	const keys = 2500
	for _, subject := range []string{"order.created", "order.shipped", "order.created"} {
		for i := range keys {
			if _, err := js.PublishAsync(subject, fmt.Appendf(nil, `{"id":%d}`, i), jetstream.WithStallWait(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(5 * time.Minute):
		t.Fatal("the stream did not take the events in five minutes")
	}
	n := w.start()
	w.waitUntilCaughtUp(bus.EventsStream, 3*keys)
	if pending, ended := w.jobs(); pending != keys || ended != keys {
		t.Errorf("%d pending and %d ended, want %d each", pending, ended, keys)
	}
	testwait.Until(t, "all is counted", func() bool { return n.counts.count(events.Created) == 2*keys })
}

func TestTwoReadersOfOneStream(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	for range 3 {
		w.start() // each believes to hold the shard
	}
	w.publishIDs("order.created", 0, 200)
	w.publishIDs("order.shipped", 0, 200)
	last := w.publish("order.created", `{"id":"last"}`)
	w.waitUntilCaughtUp(bus.EventsStream, last)
	if pending, ended := w.jobs(); pending != 1 || ended != 200 {
		t.Errorf("%d pending and %d ended, want 1 and 200", pending, ended)
	}
	if c := w.cursor(bus.EventsStream); c.Created != 201 {
		t.Errorf("%d jobs were created, want 201", c.Created)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	n := w.start()
	long := `{"id":"long","text":"` + strings.Repeat("x", events.MaxBody) + `"}`
	bad := map[string]string{"not JSON": `{"id":`, "no key": `{"number":1}`, "an empty key": `{"id":""}`, "too long": long, "empty": ""}
	for _, body := range bad {
		w.publish("order.created", body)
	}
	last := w.publish("order.created", `{"id":"fine"}`)
	w.waitUntilCaughtUp(bus.EventsStream, last)

	if pending, _ := w.jobs(); pending != 1 {
		t.Errorf("%d jobs, want 1", pending)
	}
	letters, err := w.store.DeadLetters(t.Context(), futurejobs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(letters.Items) != len(bad) {
		t.Fatalf("%d dead letters, want %d", len(letters.Items), len(bad))
	}
	for _, listed := range letters.Items {
		l, err := w.store.DeadLetter(t.Context(), listed.ID) // a list omits large bodies
		if err != nil {
			t.Fatal(err)
		}
		tooLong := strings.HasPrefix(string(l.Event.Data), `{"id":"long"`)
		if l.Reason == "" || l.Event.Subject != "order.created" || l.Event.Seq == 0 || l.At.IsZero() || (l.Rule == "") != tooLong {
			t.Errorf("letter of rule %q at %v, seq %d on %s: %q", l.Rule, l.At, l.Event.Seq, l.Event.Subject, l.Reason)
		}
		if len(l.Event.Data) > events.MaxBody {
			t.Errorf("a letter keeps %d bytes", len(l.Event.Data))
		}
	}
	testwait.Until(t, "they are counted", func() bool { return n.counts.count(events.DeadLetter) == len(bad) })
}

// Whenever the database reports a stream as read through a time, every event acknowledged before that time is
// applied.
func TestReadThroughIsTrue(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	w.start()

	type ack struct {
		seq uint64
		at  time.Time
	}
	var mu sync.Mutex
	var acks []ack
	done := make(chan struct{})
	enough := make(chan struct{})
	stop := sync.OnceFunc(func() { close(enough) })
	defer stop()
	defer time.AfterFunc(5*time.Minute, stop).Stop()
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-enough:
				return
			default:
			}
			seq, err := w.send("order.created", fmt.Sprintf(`{"id":%d}`, i))
			now, failed := w.store.Now(t.Context())
			if err != nil || failed != nil {
				t.Error(err, failed)
				return
			}
			mu.Lock()
			acks = append(acks, ack{seq, now})
			mu.Unlock()
		}
	}()
	var marks []time.Time
	for sending := true; sending; {
		select {
		case <-done:
			sending = false
		default:
		}
		c := w.cursor(bus.EventsStream)
		if len(marks) == 0 || !marks[len(marks)-1].Equal(c.ReadThrough) {
			marks = append(marks, c.ReadThrough)
		}
		if len(marks) == 5 { // about four seconds
			stop()
		}
		mu.Lock()
		for _, a := range acks {
			if a.seq > c.LastSeq && a.at.Before(c.ReadThrough) {
				t.Fatalf("read through %v at %d, but %d was acknowledged before %v", c.ReadThrough, c.LastSeq, a.seq, a.at)
			}
		}
		mu.Unlock()
	}
	if len(marks) < 5 {
		t.Errorf("marked %d times while events came", len(marks))
	}
	w.markEverySecond()
}

// markEverySecond waits until three slots of a quiet stream are marked within two seconds after they pass. A busy machine
// may be late for some slots, but not for 60 of them.
func (w *fixture) markEverySecond() {
	w.t.Helper()
	for inTime, late := 0, 0; inTime < 3; {
		now, err := w.store.Now(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		slot := futurejobs.Grid(time.Second).After(now)
		testwait.Until(w.t, "the stream is marked past a slot", func() bool {
			return !w.cursor(bus.EventsStream).ReadThrough.Before(slot)
		})
		through := w.cursor(bus.EventsStream).ReadThrough
		seen, err := w.store.Now(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if through.After(seen.Add(time.Second)) {
			w.t.Errorf("marked through %v at %v", through, seen)
		}
		if seen.Sub(slot) <= 2*time.Second {
			inTime++
		} else if late++; late == 60 {
			w.t.Fatalf("%d slots are marked more than two seconds after they passed, and %d in time", late, inTime)
		}
	}
}

func TestNewRulesMissNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	w.start()
	w.start() // its rules are outdated each time the other's are new
	traffic := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-traffic:
				return
			default:
				if _, err := w.send("order.created", fmt.Sprintf(`{"id":%d}`, i)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	const kinds = 6
	var last uint64
	for i := range kinds {
		kind := fmt.Sprintf("kind%d", i)
		w.saveOrderRule(kind)
		last = w.publish(kind+".created", `{"id":"a"}`)
	}
	close(traffic)
	sending.Wait()
	w.waitUntilCaughtUp(bus.EventsStream, last)
	for i := range kinds {
		if _, err := w.store.Job(t.Context(), fmt.Sprintf("kind%d-unshipped", i), "a"); err != nil {
			t.Errorf("kind%d: %v", i, err)
		}
	}
}

func TestOnlyHolderReads(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.saveOrderRule("order")
	n := w.start()
	last := w.publish("order.created", `{"id":1}`)
	w.waitUntilCaughtUp(bus.EventsStream, last)

	n.shards.held.Store(false)
	n.Wake()
	testwait.Until(t, "reading ends", func() bool { return len(n.Status()) == 0 })
	through := w.cursor(bus.EventsStream).ReadThrough
	last = w.publish("order.created", `{"id":2}`)
	if c := w.cursor(bus.EventsStream); c.LastSeq == last || !c.ReadThrough.Equal(through) {
		t.Errorf("read without the shard: %+v", c)
	}
	n.shards.held.Store(true)
	n.Wake()
	w.waitUntilCaughtUp(bus.EventsStream, last)
}

func TestRecreatedStream(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			w := newFixture(t)
			js := w.js()
			create := func() {
				if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"order.*"}}); err != nil {
					t.Fatal(err)
				}
			}
			create()
			w.saveOrderRule("order")
			n := w.start()
			w.publishIDs("order.created", 0, 5)
			w.waitUntilCaughtUp("ORDERS", 5)
			before := w.cursor("ORDERS")
			if !running {
				n.stop()
			}
			if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil {
				t.Fatal(err)
			}
			create()
			w.publishIDs("order.created", 5, 13) // beyond the old end too
			if !running {
				w.start()
			}
			testwait.Until(t, "the new stream is read", func() bool { pending, _ := w.jobs(); return pending == 13 })
			after := w.cursor("ORDERS")
			if after.LastSeq != 8 || after.StreamCreatedAt.Equal(before.StreamCreatedAt) || after.Created != 13 {
				t.Errorf("%+v, then %+v", before, after)
			}
		})
	}
}

// A rule saved for a stream with existing events also receives the events of the recreated stream.
func TestRulesReadRecreatedStream(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	js := w.js()
	create := func() {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"order.*"}}); err != nil {
			t.Fatal(err)
		}
	}
	create()
	w.publishIDs("order.created", 100, 120)
	w.saveOrderRule("order") // from 20 on
	w.start()
	w.publishIDs("order.created", 0, 3)
	w.waitUntilCaughtUp("ORDERS", 23)
	if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	create()
	w.publishIDs("order.created", 3, 8)
	testwait.Until(t, "the new stream is read", func() bool { return w.cursor("ORDERS").LastSeq == 5 })
	if pending, ended := w.jobs(); pending != 8 || ended != 0 {
		t.Errorf("%d jobs are pending and %d ended, want 8 and none", pending, ended)
	}
}

func TestBrokerReconnects(t *testing.T) {
	w := newFixture(t)
	w.saveOrderRule("order")
	n := w.start()
	w.publishIDs("order.created", 0, 5)
	w.waitUntilCaughtUp(bus.EventsStream, 5)
	addr := strings.TrimPrefix(w.server.ClientURL(), "nats://")
	w.server.Close()
	testwait.Until(t, "the status shows it", func() bool {
		s := n.Status()
		return len(s) == 1 && s[0].Err != nil && s[0].Seq == 5
	})
	through := w.cursor(bus.EventsStream).ReadThrough

	w.server = w.serve(addr)
	testwait.Until(t, "the connection is back", w.bus.Conn.Connected)
	testwait.Until(t, "the stream stores events again", func() bool { // the server connects before its streams answer
		_, _, _, err := w.bus.EventPublisher.PublishEvent(t.Context(), "order.created", []byte(`{"id":5}`), nil, "five")
		return err == nil
	})
	w.publishIDs("order.created", 6, 10)
	w.waitUntilCaughtUp(bus.EventsStream, 10)
	testwait.Until(t, "the status is well", func() bool {
		s := n.Status()
		return len(s) == 1 && s[0].Err == nil && s[0].Seq == 10
	})
	testwait.Until(t, "marking continues", func() bool { return w.cursor(bus.EventsStream).ReadThrough.After(through) })
}
