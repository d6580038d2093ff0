package bus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"deadman/internal/bus"
	"deadman/internal/bus/bustest"
	"deadman/internal/testwait"
)

// newProxy puts a proxy in front of a server.
func newProxy(t *testing.T, s *bus.Server) (proxy *toxiproxy.Proxy, url string) {
	t.Helper()
	quiet := zerolog.Nop()
	proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), quiet), t.Name(), "127.0.0.1:0", strings.TrimPrefix(s.ClientURL(), "nats://"))
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	return proxy, "nats://" + proxy.Listen
}

// TestSlowWay checks a network that takes longer for a batch than the timeout of an answer.
func TestSlowWay(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := newProxy(t, s)
	b := connectURL(t, url)
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "bandwidth", "stream": "upstream", "attributes": {"rate": 50}}`)); err != nil {
		t.Fatal(err)
	}
	batch := someAlerts(400)
	left, silent := batch, 0
	for len(left) > 0 {
		sent, err := b.AlertPublisher.Publish(t.Context(), left)
		if len(sent) > 0 && !cmp.Equal(left[:len(sent)], sent) {
			t.Fatal("the order was not kept")
		}
		if left = left[len(sent):]; err != nil {
			if silent++; !errors.Is(err, bus.ErrUnreachable) || silent > 20 {
				t.Fatalf("%d of %d are left: %v", len(left), len(batch), err)
			}
		}
	}
	if silent == 0 {
		t.Error("the way was not slow")
	}
	if diff := cmp.Diff(batch, follow(t, connect(t, s), len(batch)+10, len(batch))); diff != "" {
		t.Error(diff)
	}
}

// TestBrokenConnection checks that alerts in flight at a broken connection are sent again and stored once.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := newProxy(t, s)
	b := connectURL(t, url)
	batch := someAlerts(3000)
	for i := range batch {
		batch[i].Key = fmt.Sprint(i % 50)
	}
	// The connection is cut after some of the bytes, each time at another position.
	cut := func(after int) {
		t.Helper()
		toxic := fmt.Sprintf(`{"name": "cut", "type": "limit_data", "stream": "upstream", "attributes": {"bytes": %d}}`, after)
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatal(err)
		}
	}
	left, broken := batch, 0
	for _, after := range []int{300_000, 900_000, 1_250_000, 2_100_000} {
		cut(after)
		sent, err := b.AlertPublisher.Publish(t.Context(), left)
		if left = left[len(sent):]; err != nil {
			broken++
		}
		if err := proxy.Toxics.RemoveToxic(t.Context(), "cut"); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, "the connection is back", b.Conn.Connected)
	}
	testwait.Until(t, "all is sent", func() bool {
		sent, _ := b.AlertPublisher.Publish(t.Context(), left)
		left = left[len(sent):]
		return len(left) == 0
	})
	if broken == 0 {
		t.Error("the connection never broke")
	}
	if diff := cmp.Diff(batch, follow(t, connect(t, s), len(batch)+10, len(batch))); diff != "" {
		t.Error(diff)
	}
}

// TestReadOverSlowWay checks that a reader survives answers that take longer than the heartbeats of a pull, and reads each
// message once.
func TestReadOverSlowWay(t *testing.T) {
	t.Parallel()
	s := serve(t, bustest.Dir(t))
	proxy, url := newProxy(t, s)
	b := connectURL(t, url)
	bind(t, b, "orders.created")
	var want, got []uint64
	for range 10 {
		want = append(want, publish(t, b, "orders.created"))
	}
	r := newReader(t, b, bus.EventsStream, 0, "orders.created")
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(`{"type": "latency", "stream": "downstream", "attributes": {"latency": 3000}}`)); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "all is read", func() bool {
		some, err := r.Next(t.Context(), 100, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, seqs(some)...)
		return len(got) >= len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
