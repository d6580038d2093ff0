package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"deadman/internal/bus/bustest"

	"github.com/nats-io/nats.go/jetstream"
)

// TestPastEndsWhereStreamForgets checks that a replay does not wait for messages deleted meanwhile, because a
// quiet stream might never end it.
func TestPastEndsWhereStreamForgets(t *testing.T) {
	server := serve(t, bustest.Dir(t))
	b, js := connect(t, server), bustest.JetStream(t, server.ClientURL())
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.*"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	const all = 5000 // more than one pull
	for i := range all {
		if _, err := js.Publish(t.Context(), "orders.created", fmt.Appendf(nil, `{"id":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := 0
	for _, err := range b.Binder.Replay(ctx, "ORDERS", []string{"orders.*"}, time.Time{}, all) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			if err := stream.Purge(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n == 0 || n == all {
		t.Errorf("%d of %d events: nothing was tested", n, all)
	}
}
