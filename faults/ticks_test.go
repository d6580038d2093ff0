package faults_test

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/faults"
)

// openTicks has the rules of the arena tick. The stream of what they emit forgets within a moment
// which ids it has seen: any death of a node outlasts that.
func openTicks(a *arena) {
	a.Helper()
	js, err := jetstream.New(a.NATS)
	if err != nil {
		a.Fatal(err)
	}
	if _, err := js.CreateStream(a.Context(), jetstream.StreamConfig{
		Name: faults.TickSource, Subjects: []string{"ticks.>"}, Duplicates: 100 * time.Millisecond,
	}); err != nil {
		a.Fatal(err)
	}
	a.rules, a.model = "ticks", a.Ticked
}

// tick waits until there were some ticks.
func (a *arena) tick(int, time.Duration) {
	a.Helper()
	a.wait()
	const events = 4
	js, err := jetstream.New(a.NATS)
	if err != nil {
		a.Fatal(err)
	}
	eventually(a.T, 2*time.Minute, "some events are emitted", func() bool {
		stream, err := js.Stream(a.Context(), faults.TickSource)
		return err == nil && stream.CachedInfo().State.Msgs >= events
	})
	a.note("ticked")
}
