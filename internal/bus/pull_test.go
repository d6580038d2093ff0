package bus_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

// statuses returns messages that resemble the broker's status messages. A JetStream client would mistake them.
func statuses(subject string) []*nats.Msg {
	var all []*nats.Msg
	for _, status := range []string{"100", "400", "404", "408", "409", "423", "503", "abc", ""} {
		m := nats.NewMsg(subject)
		m.Header.Set("Status", status)
		m.Header.Set("Description", "Consumer Deleted")
		all = append(all, m)
	}
	return all
}

// TestReadSkipsBodiesThatLookLikeStatus checks that a message resembling a status is read like any other, so that no
// sender can block a stream.
func TestReadSkipsBodiesThatLookLikeStatus(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	b, js := connect(t, s), bustest.JetStream(t, s.ClientURL())
	bind(t, b, "orders.created")
	var want []uint64
	put := func(m *nats.Msg) {
		t.Helper()
		ack, err := js.PublishMsg(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, ack.Sequence)
	}
	for _, m := range statuses("orders.created") {
		put(m)
		put(&nats.Msg{Subject: "orders.created", Data: []byte(`{}`)})
	}
	for _, after := range []int{0, 1, 2, 5} { // even as the first message
		r := newReader(t, b, bus.EventsStream, want[0]+uint64(after)-1, "orders.created")
		var got []futurejobs.Event
		testwait.Until(t, "all is read", func() bool {
			some, err := r.Next(t.Context(), 100, time.Second)
			if err != nil {
				t.Fatalf("after %d: %v", after, err)
			}
			got = append(got, some...)
			return len(got) >= len(want)-after
		})
		if diff := cmp.Diff(want[after:], seqs(got)); diff != "" {
			t.Errorf("after %d (-want +got):\n%s", after, diff)
		}
	}
}

// TestFollowSkipsBodiesThatLookLikeStatus checks that such a message does not block followers of alerts.
func TestFollowSkipsBodiesThatLookLikeStatus(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	b, js := connect(t, s), bustest.JetStream(t, s.ClientURL())
	want := someAlerts(2)
	publishAlerts(t, b, want[:1])
	all := statuses("deadman.alerts.a.warning.x")
	for _, m := range all {
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	publishAlerts(t, b, want[1:])
	if diff := cmp.Diff(want, follow(t, b, 100, len(want))); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
	if got := b.AlertReader.Foreign(); got != uint64(len(all)) {
		t.Errorf("%d were passed over, want %d", got, len(all))
	}
}

// TestReadOverManyRequests checks that a reader continues after each end of a request: by messages, by bytes, and by
// time.
func TestReadOverManyRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	b, js := connect(t, s), bustest.JetStream(t, s.ClientURL())
	bind(t, b, "orders.created")
	const small, large = 4100, 30 // more than two requests of each kind can hold
	body := make([]byte, 700<<10)
	var last jetstream.PubAckFuture
	for i := range small + large {
		data := []byte(`{}`)
		if i >= small {
			data = body
		}
		var err error
		if last, err = js.PublishAsync("orders.created", data, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-last.Ok():
	case err := <-last.Err():
		t.Fatal(err)
	}
	r := newReader(t, b, bus.EventsStream, 0, "orders.created")
	n := uint64(0)
	testwait.Until(t, "all is read", func() bool {
		some, err := r.Next(t.Context(), 10_000, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range some {
			if n++; e.Seq != n {
				t.Fatalf("message %d came as number %d", e.Seq, n)
			}
		}
		return n == small+large
	})
}
