package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/rules"
)

// drawLoss has the stream of events lose some while it is read.
func drawLoss(s *scenario, random *rand.Rand) {
	lag := fmt.Sprintf("intake.read=sleep:%dms@0.5", 200+random.IntN(600))
	s.nodes = [][]string{{seeded(random, lag)}}
	if random.IntN(2) == 0 {
		place := intakePlaces[random.IntN(len(intakePlaces))]
		s.nodes = [][]string{{seeded(random, fmt.Sprintf("%s=kill@%d;%s", place, 1+random.IntN(5), lag)), seeded(random, lag)}}
	}
	s.beside(random, 3)
	const n, pace = 200, 5 * time.Millisecond
	s.stage = func(a *arena, _ *rand.Rand) {
		a.padding = rules.MaxBody / 2 // so that a node cannot hold all that was not applied yet
		a.play = func() { a.playCreated(n, pace) }
		var lost int
		a.model = func(ctx context.Context) (err error) {
			lost, err = a.Lost(ctx, a.sources[0], a.acked)
			return err
		}
		a.Cleanup(func() { a.Logf("%d of %d events were lost", lost, n) })
	}
	s.upset = []func(*arena, *rand.Rand){overflow, purge, remove}[random.IntN(3)]
}

// playCreated publishes orders that are never shipped.
func (a *arena) playCreated(n int, pace time.Duration) {
	a.Helper()
	a.wait()
	for i := range n {
		a.publish("orders.created", orderKey(i), "")
		pause(pace)
	}
	a.note("played")
}

// overflow has the stream keep fewer events than are waiting to be read.
func overflow(a *arena, random *rand.Rand) {
	pause(span(random, 100*time.Millisecond, 600*time.Millisecond))
	most := 5 + random.Int64N(40)
	a.note("the stream keeps %d events", most)
	a.configure(func(c *jetstream.StreamConfig) { c.MaxMsgs = most })
	pause(span(random, 200*time.Millisecond, time.Second))
	a.configure(func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 })
	a.note("the stream keeps all events")
}

// purge empties the stream a few times.
func purge(a *arena, random *rand.Rand) {
	for range 1 + random.IntN(3) {
		pause(span(random, 100*time.Millisecond, 500*time.Millisecond))
		a.note("the stream is purged")
		a.stream(func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
	}
}

// remove deletes events in the middle of the stream.
func remove(a *arena, random *rand.Rand) {
	for range 3 + random.IntN(20) {
		pause(span(random, 10*time.Millisecond, 100*time.Millisecond))
		a.stream(func(ctx context.Context, s jetstream.Stream) error {
			info, err := s.Info(ctx)
			if err != nil || info.State.Msgs == 0 {
				return err
			}
			seq := info.State.LastSeq - min(random.Uint64N(10), info.State.LastSeq-info.State.FirstSeq)
			if _, err := s.GetMsg(ctx, seq); errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil // it was deleted before
			}
			a.note("event %d is deleted", seq)
			return s.DeleteMsg(ctx, seq)
		})
	}
}

// stream does something with the stream of events.
func (a *arena) stream(do func(context.Context, jetstream.Stream) error) {
	a.Helper()
	stream, err := a.jetStream().Stream(a.Context(), a.sources[0])
	if err == nil {
		err = do(a.Context(), stream)
	}
	if err != nil {
		a.Error(err)
	}
}

// configure changes the stream of events.
func (a *arena) configure(change func(*jetstream.StreamConfig)) {
	a.Helper()
	a.stream(func(ctx context.Context, s jetstream.Stream) error {
		config := s.CachedInfo().Config
		change(&config)
		_, err := a.jetStream().UpdateStream(ctx, config)
		return err
	})
}
