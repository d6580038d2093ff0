package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/events"
	"deadman/internal/testwait"
)

func newReader(t *testing.T, b *bus.Bus, stream string, after uint64, subjects ...string) events.Reader {
	t.Helper()
	r, err := b.Streams.Read(t.Context(), stream, after, subjects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// drain reads until no messages are left.
func drain(t *testing.T, b *bus.Bus, stream string, after uint64, subjects ...string) []futurejobs.Event {
	t.Helper()
	r := newReader(t, b, stream, after, subjects...)
	defer func() { r.Close() }()
	var all []futurejobs.Event
	for again := 0; ; {
		got, err := r.Next(t.Context(), 7, 10*time.Millisecond)
		if errors.Is(err, bus.ErrReaderLost) && again < 10 { // a cluster has elected another leader
			again++
			r.Close()
			r = newReader(t, b, stream, after, subjects...)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got...)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		if isDrained(t, r, after) {
			return all
		}
	}
}

// isDrained reports whether no messages after seq are left at the moment.
func isDrained(t *testing.T, r events.Reader, seq uint64) bool {
	t.Helper()
	end, ok, err := r.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done, err := r.Drained(t.Context(), seq, end)
	if err != nil {
		t.Fatal(err)
	}
	return ok && done
}

func publish(t *testing.T, b *bus.Bus, subject string) uint64 {
	t.Helper()
	_, seq, _, err := b.EventPublisher.PublishEvent(t.Context(), subject, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func seqs(all []futurejobs.Event) []uint64 {
	var s []uint64
	for _, e := range all {
		s = append(s, e.Seq)
	}
	return s
}

func TestReadOnlySubjects(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	bind(t, b, "a.*", "b.*", "c")
	for range 2 {
		publish(t, b, "a.x") // 1 5
		publish(t, b, "b.y") // 2 6
		publish(t, b, "b.x") // 3 7
		publish(t, b, "c")   // 4 8
	}
	for _, c := range []struct {
		subjects []string
		after    uint64
		want     []uint64
	}{
		{[]string{"a.*"}, 0, []uint64{1, 5}},
		{[]string{"a.*", "a.x", "a.*"}, 0, []uint64{1, 5}},
		{[]string{"a.*", "c"}, 1, []uint64{4, 5, 8}},
		{[]string{"b.*", "*.x"}, 0, []uint64{1, 2, 3, 5, 6, 7}}, // the broker refuses such filters
		{[]string{"c"}, 8, nil},
		{nil, 6, []uint64{7, 8}},
		{[]string{"b.never"}, 0, nil},
	} {
		if diff := cmp.Diff(c.want, seqs(drain(t, b, bus.EventsStream, c.after, c.subjects...))); diff != "" {
			t.Errorf("%v after %d: %s", c.subjects, c.after, diff)
		}
	}
}

// TestEndOfMovedSubject checks that a stream's end is not the end of a subject that moved to another stream.
func TestEndOfMovedSubject(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	bind(t, b, "a.*")
	for subject, want := range map[string]bool{"a.x": true, "moved.x": false} {
		r, err := b.Streams.Read(t.Context(), bus.EventsStream, 0, []string{subject})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := r.End(t.Context()); ok != want || err != nil {
			t.Errorf("%s: the end is certain: %v, %v", subject, ok, err)
		}
		r.Close()
	}
	r, err := b.Streams.Read(t.Context(), bus.EventsStream, 0, []string{"a.x"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	bind(t, b, "c") // it takes in another subject
	if _, _, err := r.End(t.Context()); !errors.Is(err, bus.ErrReaderLost) {
		t.Errorf("the stream was changed: %v", err)
	}
}

func TestEventHeaders(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	bind(t, b, "orders.*")
	before := time.Now().Add(-time.Minute)
	for _, c := range []struct {
		header map[string][]string
		id     string
		want   string
	}{
		{nil, "", ""},
		{nil, "m1", "m1"},
		{map[string][]string{"ce-id": {"c1"}, "traceparent": {"00-a-b-01"}}, "m2", "c1"},
	} {
		stream, seq, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", []byte(`{"id":1}`), c.header, c.id)
		if err != nil {
			t.Fatal(err)
		}
		e := drain(t, b, stream, seq-1, "orders.created")[0]
		if e.ID != c.want || e.Seq != seq || e.Subject != "orders.created" || string(e.Data) != `{"id":1}` || e.Stream != stream {
			t.Errorf("%v: %+v", c, e)
		}
		if e.At.Before(before) || e.At.Location() != time.UTC || e.At.Nanosecond()%1000 != 0 {
			t.Errorf("at %v", e.At)
		}
		for k, v := range c.header {
			if diff := cmp.Diff(v, e.Header[k]); diff != "" {
				t.Errorf("header %s: %s", k, diff)
			}
		}
	}
}

func TestPublishEventRefuses(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	bind(t, b, "orders.created")
	for subject, want := range map[string]error{
		"orders.*": bus.ErrSubject, ">": bus.ErrSubject, "deadman.alerts.x.info.1": bus.ErrSubject, "deadman-staging.acks.x": bus.ErrSubject,
		"$JS.API.INFO": bus.ErrSubject, "_INBOX.x": bus.ErrSubject, "": bus.ErrSubject, "orders.lost": bus.ErrNoStream,
	} {
		if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), subject, nil, nil, ""); !errors.Is(err, want) {
			t.Errorf("%q: %v", subject, err)
		}
	}
	large := make([]byte, 2<<20)
	if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", large, nil, ""); !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), "2097152") {
		t.Errorf("an event of two megabytes: %v", err)
	}
	header := map[string][]string{"nats-Expected-Last-Sequence": {"7"}}
	if _, _, _, err := b.EventPublisher.PublishEvent(t.Context(), "orders.created", nil, header, ""); !errors.Is(err, bus.ErrHeader) {
		t.Errorf("a header for the broker: %v", err)
	}
}

func TestNextReturnsAvailableEvents(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	bind(t, b, "x")
	r := newReader(t, b, bus.EventsStream, 0, "x")
	if got, err := r.Next(t.Context(), 10, time.Millisecond); len(got) != 0 || err != nil {
		t.Fatalf("nothing was there: %v, %v", got, err)
	}
	startedAt := time.Now()
	var sent sync.WaitGroup
	sent.Go(func() { publish(t, b, "x") })
	got, err := r.Next(t.Context(), 10, time.Minute)
	if len(got) != 1 || err != nil {
		t.Fatalf("%v, %v", got, err)
	}
	if waited := time.Since(startedAt); waited > 30*time.Second {
		t.Errorf("the first event was kept back for %s", waited)
	}
	sent.Wait()
}

// TestNextLosesNothingWhenItIsCalledOff checks that a cancelled Next loses no messages.
func TestNextLosesNothingWhenItIsCalledOff(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	bind(t, b, "x")
	const all = 200
	for range all {
		publish(t, b, "x")
	}
	r := newReader(t, b, bus.EventsStream, 0, "x")
	got, err := r.Next(t.Context(), 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	off, cancel := context.WithCancel(t.Context())
	cancel()
	for begun := time.Now(); len(got) < all; {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d of %d events in a minute", len(got), all)
		}
		more, err := r.Next(off, 5, time.Minute)
		if err != nil && (len(more) > 0 || !errors.Is(err, context.Canceled)) {
			t.Fatalf("%d events, and %v", len(more), err)
		}
		got = append(got, more...)
	}
	for i, seq := range seqs(got) {
		if seq != uint64(i+1) {
			t.Fatalf("event %d has the sequence %d", i+1, seq)
		}
	}
}

// TestDrainedIsNeverTrueTooEarly checks that Drained is never true while an event acknowledged before the call
// exists, because false alerts would follow.
func TestDrainedIsNeverTrueTooEarly(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	bind(t, b, "mine.*", "other.*")
	r := newReader(t, b, bus.EventsStream, 0, "mine.*")

	const events = 600
	var acked atomic.Uint64
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range events {
			if i%3 == 0 {
				acked.Store(publish(t, b, fmt.Sprintf("mine.%d", i%5)))
			} else {
				publish(t, b, "other.x")
			}
		}
	})
	var at uint64
	var trues, taken int
	for taken < events/3 {
		known := acked.Load()
		if isDrained(t, r, at) {
			if trues++; at < known {
				t.Fatalf("drained at %d, but %d was acknowledged before", at, known)
			}
		}
		got, err := r.Next(t.Context(), 3, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if taken += len(got); len(got) > 0 {
			at = got[len(got)-1].Seq
		}
	}
	sending.Wait()
	if !isDrained(t, r, at) {
		t.Error("at the end there is still something")
	}
	t.Logf("drained %d times while %d events came", trues, events)
}

func TestRecreatedStreamIsNoticed(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	js := bustest.JetStream(t, s.ClientURL())
	makeStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	publish(t, b, "orders.a")
	publish(t, b, "orders.b")
	r := newReader(t, b, "ORDERS", 2, "orders.>")
	first, err := b.Streams.Info(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}

	if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	makeStream(t, js, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	for range 3 {
		publish(t, b, "orders.c")
	}
	if _, ok, err := r.End(t.Context()); ok || !errors.Is(err, bus.ErrStreamReplaced) {
		t.Errorf("the end is certain: %v, %v", ok, err)
	}
	testwait.Until(t, "the reader ends", func() bool {
		got, err := r.Next(t.Context(), 10, 10*time.Millisecond)
		if len(got) > 0 {
			t.Fatalf("events of another stream: %v", seqs(got))
		}
		return errors.Is(err, bus.ErrReaderLost)
	})
	second, err := b.Streams.Info(t.Context(), "ORDERS")
	if err != nil || second.CreatedAt.Equal(first.CreatedAt) || second.LastSeq != 3 {
		t.Errorf("%+v, then %+v, %v", first, second, err)
	}
}

func TestBeforeTime(t *testing.T) {
	b := connect(t, serve(t, bustest.Dir(t)))
	bind(t, b, "x")
	for range 3 {
		publish(t, b, "x")
	}
	all := drain(t, b, bus.EventsStream, 0)
	for i, at := range []time.Time{all[0].At.Add(-time.Second), all[0].At, all[1].At, all[2].At, all[2].At.Add(time.Hour)} {
		got, err := b.Streams.Before(t.Context(), bus.EventsStream, at)
		if want := uint64(min(i, 3)); err != nil || got != want {
			t.Errorf("before the first message after %v: %d, %v, want %d", at, got, err, want)
		}
	}
	if got := drain(t, b, bus.EventsStream, 1); len(got) != 2 {
		t.Errorf("looking for a time disturbed the stream: %v", seqs(got))
	}
}

func TestReaderEndsWithConnection(t *testing.T) {
	dir := bustest.Dir(t)
	s := serve(t, dir)
	b := connectURL(t, s.ClientURL())
	bind(t, b, "x")
	publish(t, b, "x")
	r := newReader(t, b, bus.EventsStream, 1, "x")
	if _, err := r.Next(t.Context(), 1, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	addr := s.ClientURL()[len("nats://"):]
	s.Close()
	testwait.Until(t, "the connection is lost", func() bool { return !b.Conn.Connected() }) // the reader notices it earlier
	again, err := bus.StartServer(bus.ServerOptions{Dir: dir, Addr: addr, Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	testwait.Until(t, "the reader ends", func() bool {
		_, err := r.Next(t.Context(), 1, 10*time.Millisecond)
		return errors.Is(err, bus.ErrReaderLost)
	})
	testwait.Until(t, "the connection is back", b.Conn.Connected)
	publish(t, b, "x")
	if diff := cmp.Diff([]uint64{2}, seqs(drain(t, b, bus.EventsStream, 1, "x"))); diff != "" {
		t.Error(diff)
	}
}

// TestReadThousandsOfSubjects checks that a reader of the subjects of thousands of rules opens in time, and reads those only.
func TestReadThousandsOfSubjects(t *testing.T) {
	s := serve(t, bustest.Dir(t))
	b := connect(t, s)
	bind(t, b, "a.>", "b.*")
	subjects := []string{"b.*", "b.x"}
	for i := range 20_000 {
		subjects = append(subjects, fmt.Sprintf("a.r%d.created", i))
	}
	for range 2 {
		publish(t, b, "a.r7.created")     // 1 5
		publish(t, b, "a.other.created")  // 2 6
		publish(t, b, "b.x")              // 3 7
		publish(t, b, "a.r19999.created") // 4 8
	}
	if diff := cmp.Diff([]uint64{1, 3, 4, 5, 7, 8}, seqs(drain(t, b, bus.EventsStream, 0, subjects...))); diff != "" {
		t.Error(diff)
	}
}
