package events_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// Events that are expensive to match are applied a few at a time, although they were read together: earlier ones are
// not delayed by the matching of later ones.
func TestEventsThatCostMuchAreAppliedAFewAtATime(t *testing.T) {
	w := newWorld(t)
	w.stream(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"order.>"}})
	var text []string
	for i := range 20 { // each costs some milliseconds per event
		text = append(text, fmt.Sprintf("name: r%d\nentity: order\nescalate: [{after: 1h}]\n"+
			"trigger: {event: order.created, key: event.id, if: 'count(event.list, # == 1) < 3'}\n", i))
	}
	w.write(strings.Join(text, "---\n"))
	const events = 60
	list := strings.Repeat(",0", 10_000)
	var last uint64
	for i := range events {
		last = w.publish("order.created", fmt.Sprintf(`{"id": "%d", "list": [0%s]}`, i, list))
	}
	r := &recording{EffectStore: w.store}
	n := w.startOn(r)
	w.caughtUp("ORDERS", last)
	n.stop()
	applied := 0
	for _, a := range r.applied {
		if a.err != nil || a.events > events/2 {
			t.Errorf("a batch of %d events: %v", a.events, a.err)
		}
		applied += a.events
	}
	if pending, _ := w.jobs(); applied != events || pending != 20*events || w.cursor("ORDERS").Created != int64(20*events) {
		t.Errorf("of %d events %d are applied; %d jobs, %d are counted", events, applied, pending, w.cursor("ORDERS").Created)
	}
	if letters := w.letters(); len(letters) != 0 {
		t.Errorf("%+v", letters[0])
	}
}
