package faults_test

import (
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/faults"
)

// openTicks makes the rules of the testbed tick. The duplicate window of the stream of their events is shorter than any
// death of a node.
func openTicks(a *testbed, _ *rand.Rand) {
	a.Helper()
	if _, err := a.jetStream().CreateStream(a.Context(), jetstream.StreamConfig{
		Name: faults.TickSource, Subjects: []string{"ticks.>"}, Duplicates: 100 * time.Millisecond,
	}); err != nil {
		a.Fatal(err)
	}
	a.rules, a.play, a.model = "ticks", a.tick, a.CheckTicks
}

// tick waits until some ticks have occurred.
func (a *testbed) tick() {
	a.Helper()
	a.wait()
	const events = 4
	js := a.jetStream()
	eventually(a.T, 2*time.Minute, "some events are emitted", func() bool {
		stream, err := js.Stream(a.Context(), faults.TickSource)
		return err == nil && stream.CachedInfo().State.Msgs >= events
	})
	a.record("ticked")
}
