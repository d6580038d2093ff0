package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
)

// dueEmission returns the emission of a current tick.
func dueEmission(subject string) futurejobs.Emission {
	at := time.Now().UTC().Truncate(time.Second)
	return futurejobs.Emission{Rule: "import-due", Subject: subject, ID: fmt.Sprintf("import-due-%d", at.Unix()), Data: []byte(`{"any":"json"}`), At: at, Missed: 2}
}

// withoutLease sends an event of an unchanged rule.
func withoutLease(ctx context.Context, send func(ctx context.Context) (isAnswered bool, err error)) error {
	_, err := send(ctx)
	return err
}

// messagesOn returns the events of a stream on a subject.
func messagesOn(t *testing.T, js jetstream.JetStream, stream, subject string) (all []jetstream.RawStreamMsg) {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); ; {
		m, err := s.GetMsg(t.Context(), seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all, seq = append(all, *m), m.Sequence+1
	}
}

// TestEmittedEventsAreCaptured checks that a subject without a stream is captured, even after its stream was deleted.
func TestEmittedEventsAreCaptured(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	b, js := connect(t, server), bustest.JetStream(t, server.ClientURL())
	e := dueEmission("imports.due")
	for range 2 {
		if err := b.TickPublisher.PublishTick(t.Context(), e, withoutLease); err != nil {
			t.Fatal(err)
		}
		got := messagesOn(t, js, bus.EventsStream, e.Subject)
		if len(got) != 1 || string(got[0].Data) != string(e.Data) {
			t.Fatalf("%d events: %+v", len(got), got)
		}
		for name, want := range map[string]string{
			"ce-id": e.ID, "Nats-Msg-Id": e.ID, "ce-type": futurejobs.TickType, "ce-time": e.At.Format(time.RFC3339), "ce-subject": e.Rule, "ce-missed": "2", "ce-specversion": "1.0",
		} {
			if is := got[0].Header.Get(name); is != want {
				t.Errorf("%s is %q, want %q", name, is, want)
			}
		}
		if err := js.DeleteStream(t.Context(), bus.EventsStream); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.TickPublisher.PublishTick(t.Context(), dueEmission("imports.*"), withoutLease); !errors.Is(err, bus.ErrSubject) {
		t.Errorf("on a wildcard: %v", err)
	}
}

// TestEmittedEventsAreSearchedFirst checks that an event in the stream is not published again, even if the stream no
// longer knows its id and newer events follow it.
func TestEmittedEventsAreSearchedFirst(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	b, js := connect(t, server), bustest.JetStream(t, server.ClientURL())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IMPORTS", Subjects: []string{"imports.>"}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	e := dueEmission("imports.due")
	publish := func(id string) {
		msg := &nats.Msg{Subject: e.Subject, Data: e.Data, Header: nats.Header{"ce-id": {id}}} // without an id
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	publish("import-due-1")
	publish(e.ID)
	publish("import-due-2")
	for range 2 {
		if err := b.TickPublisher.PublishTick(t.Context(), e, withoutLease); err != nil {
			t.Fatal(err)
		}
	}
	if got := messagesOn(t, js, "IMPORTS", e.Subject); len(got) != 3 {
		t.Errorf("%d events, want 3", len(got))
	}
}

// TestEmittedEventsAreThereOnce checks that an event is stored once despite concurrent emitters and other publishers
// on the subject.
func TestEmittedEventsAreThereOnce(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	js := bustest.JetStream(t, server.ClientURL())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "IMPORTS", Subjects: []string{"imports.>"}, Storage: jetstream.MemoryStorage,
		Duplicates: 100 * time.Millisecond, // ends before all are done
	}); err != nil {
		t.Fatal(err)
	}
	e := dueEmission("imports.due")
	nodes := []*bus.Bus{connect(t, server), connect(t, server), connect(t, server)}
	var all sync.WaitGroup
	for _, b := range nodes {
		all.Go(func() {
			for range 20 {
				if err := b.TickPublisher.PublishTick(t.Context(), e, withoutLease); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 10 {
			if _, err := js.Publish(t.Context(), e.Subject, []byte("{}")); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	n := 0
	for _, m := range messagesOn(t, js, "IMPORTS", e.Subject) {
		if m.Header.Get("ce-id") == e.ID {
			n++
		}
	}
	if n != 1 {
		t.Errorf("it is there %d times", n)
	}
}

// TestEmittedEventsAreNotPublishedAfterOldSearch checks that a node pausing between its search and its publication
// detects a faster node.
func TestEmittedEventsAreNotPublishedAfterOldSearch(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	slow, fast, js := connect(t, server), connect(t, server), bustest.JetStream(t, server.ClientURL())
	const window = 100 * time.Millisecond
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IMPORTS", Subjects: []string{"imports.>"}, Duplicates: window}); err != nil {
		t.Fatal(err)
	}
	e, pauses := dueEmission("imports.due"), 0
	pause := func(ctx context.Context, send func(ctx context.Context) (isAnswered bool, err error)) error {
		pauses++
		if err := fast.TickPublisher.PublishTick(ctx, e, withoutLease); err != nil {
			return err
		}
		time.Sleep(2 * window)
		_, err := send(ctx)
		return err
	}
	if err := slow.TickPublisher.PublishTick(t.Context(), e, pause); err != nil {
		t.Fatal(err)
	}
	if pauses != 1 {
		t.Errorf("it was sent %d times, want once", pauses)
	}
	if got := messagesOn(t, js, "IMPORTS", e.Subject); len(got) != 1 {
		t.Errorf("%d events, want 1", len(got))
	}
}

// TestTicksReadEachMessageOnce checks that a node reads the messages on a subject before its first tick and after those
// of other publishers alone, and knows the events of each rule on it nevertheless.
func TestTicksReadEachMessageOnce(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	b, js := connect(t, server), bustest.JetStream(t, server.ClientURL())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IMPORTS", Subjects: []string{"imports.>"}, Duplicates: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	consumers, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.CREATED.IMPORTS.>")
	if err != nil {
		t.Fatal(err)
	}
	// reads returns the number of new consumers; the answer to a request comes after their advisories.
	reads := func() (n int) {
		t.Helper()
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := consumers.NextMsg(200 * time.Millisecond); err != nil {
				return n
			}
			n++
		}
	}
	const rules = 50
	emissions := make([]futurejobs.Emission, rules)
	for i := range emissions {
		emissions[i] = dueEmission("imports.due")
		emissions[i].ID = fmt.Sprintf("import-%d", i)
	}
	publishAll := func() {
		t.Helper()
		for _, e := range emissions {
			if err := b.TickPublisher.PublishTick(t.Context(), e, withoutLease); err != nil {
				t.Fatal(err)
			}
		}
		if got := messagesOn(t, js, "IMPORTS", "imports.due"); len(got) != rules {
			t.Fatalf("%d messages, want %d", len(got), rules)
		}
	}
	publishAll()
	if n := reads(); n != 0 {
		t.Errorf("the node read an empty subject %d times", n)
	}
	time.Sleep(200 * time.Millisecond) // the window is over
	publishAll()
	if n := reads(); n != 0 {
		t.Errorf("the node read its own events %d times", n)
	}
	other := &nats.Msg{Subject: "imports.due", Header: nats.Header{"ce-id": {"import-next"}}}
	if _, err := js.PublishMsg(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	next := dueEmission("imports.due")
	for _, next.ID = range []string{"import-after", "import-next"} { // the second one is there
		if err := b.TickPublisher.PublishTick(t.Context(), next, withoutLease); err != nil {
			t.Fatal(err)
		}
	}
	if n, got := reads(), messagesOn(t, js, "IMPORTS", "imports.due"); n != 1 || len(got) != rules+2 {
		t.Errorf("the node read %d times, want once; %d messages, want %d", n, len(got), rules+2)
	}
}

// TestTickOfRecreatedStreamIsPublishedAgain checks that the events on a subject are forgotten with their stream.
func TestTickOfRecreatedStreamIsPublishedAgain(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	b, js := connect(t, server), bustest.JetStream(t, server.ClientURL())
	e := dueEmission("imports.due")
	for range 2 {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IMPORTS", Subjects: []string{"imports.>"}}); err != nil {
			t.Fatal(err)
		}
		if err := b.TickPublisher.PublishTick(t.Context(), e, withoutLease); err != nil {
			t.Fatal(err)
		}
		if got := messagesOn(t, js, "IMPORTS", e.Subject); len(got) != 1 {
			t.Fatalf("%d events, want 1", len(got))
		}
		if err := js.DeleteStream(t.Context(), "IMPORTS"); err != nil {
			t.Fatal(err)
		}
	}
}
