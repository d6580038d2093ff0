package events_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// listOf returns the body of an event with a list of n numbers.
func listOf(id string, n int) string {
	return fmt.Sprintf(`{"id": %q, "list": [0%s]}`, id, strings.Repeat(",0", n))
}

// costlyList returns a length of the list with which the matching of an event takes at least the given time, or the
// largest length. A slow machine needs a short list.
func (w *fixture) costlyList(takes time.Duration, largest int) int {
	w.t.Helper()
	book := rules.NewCatalog(w.store, w.store.Shards())
	if err := book.Refresh(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	fastest := func(n int) time.Duration { // without the pauses of a busy machine
		least := time.Hour
		for range 5 {
			begun := time.Now()
			effects, refused := book.Match(futurejobs.Event{Stream: "ORDERS", Subject: "order.created", Seq: 1, At: begun, Data: []byte(listOf("x", n))})
			least = min(least, time.Since(begun))
			if len(effects) == 0 || len(refused) > 0 {
				w.t.Fatalf("an event with a list of %d has %d effects, and is refused: %v", n, len(effects), refused)
			}
		}
		return least
	}
	n := largest
	for n > 100 && fastest(n/2) >= takes {
		n /= 2
	}
	return n
}

// Events that are expensive to match are applied a few at a time, although they were read together: earlier ones are
// not delayed by the matching of later ones.
func TestCostlyEventsAreAppliedInParts(t *testing.T) {
	t.Parallel()
	const events, numRules = 60, 20
	w := newFixture(t)
	w.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"order.>"}})
	var text []string
	for i := range numRules {
		text = append(text, fmt.Sprintf("name: r%d\nentity: order\nescalate: [{after: 1h}]\n"+
			"trigger: {event: order.created, key: event.id, if: 'count(event.list, # == 1) < 3'}\n", i))
	}
	w.write(strings.Join(text, "---\n"))
	list := w.costlyList(15*time.Millisecond, 10_000) // more than twice the time for a batch, for half of the events
	var last uint64
	for i := range events {
		last = w.publish("order.created", listOf(fmt.Sprint(i), list))
	}
	r := &recordingStore{EffectStore: w.store}
	n := w.startOn(r)
	w.waitUntilCaughtUp("ORDERS", last)
	n.stop()
	applied := 0
	for _, a := range r.applied {
		if a.err != nil || a.events > events/2 {
			t.Errorf("a batch of %d events: %v", a.events, a.err)
		}
		applied += a.events
	}
	if pending, _ := w.jobs(); applied != events || pending != numRules*events || w.cursor("ORDERS").Created != int64(numRules*events) {
		t.Errorf("of %d events %d are applied; %d jobs, %d are counted", events, applied, pending, w.cursor("ORDERS").Created)
	}
	if letters := w.deadLetters(); len(letters) != 0 {
		t.Errorf("%+v", letters[0])
	}
}
