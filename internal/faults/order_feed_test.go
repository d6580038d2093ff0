package faults_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/faults"
)

// publishOrdersAt plays orders from one number up to another at a steady pace, in the background; every third order is never
// shipped. The channel returns the unshipped orders, or nothing after an error of the test itself.
func publishOrdersAt(t *testing.T, conn *nats.Conn, from, to int, pace time.Duration) <-chan map[string]bool {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	played := make(chan map[string]bool, 1)
	go func() {
		defer close(played)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		unshipped := map[string]bool{}
		for i := from; i < to; i++ {
			id := fmt.Sprintf("order-%04d", i)
			err := publish(t.Context(), js, "orders.created", id)
			if i%3 == 0 {
				unshipped[id] = true
			} else if err == nil {
				err = publish(t.Context(), js, "orders.shipped", id)
			}
			if err != nil {
				t.Errorf("publish %s: %v", id, err)
				return
			}
			<-tick.C
		}
		played <- unshipped
	}()
	return played
}

// publish publishes an order's event and returns once the stream has it.
func publish(ctx context.Context, js jetstream.JetStream, subject, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := js.Publish(ctx, subject, fmt.Appendf(nil, `{"id":%q}`, id))
	return err
}

// count reads the counts, or fails the test.
func count(t *testing.T, c *faults.Checker) faults.Counts {
	t.Helper()
	n, err := c.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// settled waits until every unshipped order was escalated, checks the promises, and compares the alerts with the
// orders.
func settled(t *testing.T, c *faults.Checker, unshipped map[string]bool) {
	t.Helper()
	eventually(t, time.Minute, "every unshipped order is escalated, and every alert published", func() bool {
		return escalated(t, c) == len(unshipped) && count(t, c).Unpublished == 0
	})
	if err := c.CheckPromises(t.Context()); err != nil {
		t.Error(err)
	}
	published, err := c.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	compare(t, published, unshipped)
}

// inOne and oneByOne are the possible alerts of the two steps of the rule: one after the other or, if no check ran in
// between, as one.
const (
	oneByOne = "primary escalated"
	inOne    = "primary+escalated"
)

// compare compares the alerts with the orders that were never shipped, one by one, and returns the number of orders
// with both steps in one alert.
func compare(t *testing.T, published []faults.PublishedAlert, unshipped map[string]bool) (late int) {
	t.Helper()
	published = slices.DeleteFunc(slices.Clone(published), func(a faults.PublishedAlert) bool { return a.Rule == "deadman" }) // of the node itself, which was slow
	broken := faults.CheckSequence(published)
	for id, steps := range broken {
		if !unshipped[id] {
			t.Errorf("a false alarm: order %s, steps %q", id, steps)
		}
	}
	for id := range unshipped {
		switch broken[id] {
		case oneByOne:
		case inOne:
			late++
		default:
			t.Errorf("order %s was never shipped; steps %q", id, broken[id])
		}
	}
	return late
}
