package faults_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// drawLoss makes the stream of events lose events that no node has read: while no node reaches the broker, or while
// nodes read over a slow link.
func drawLoss(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	if random.IntN(2) == 0 {
		s.nodes = [][]string{killPlans(random, 1+random.IntN(2), intakeFailpoints)}
	}
	s.addNode(random, 3)
	s.stage = func(a *testbed, _ *rand.Rand) {
		a.play = func() { a.publishCreated(150, 10*time.Millisecond) }
		var lost int
		a.model = func(ctx context.Context) (err error) {
			lost, err = a.Lost(ctx, a.sources[0], a.acked)
			return err
		}
		a.Cleanup(func() { a.Logf("%d events were lost", lost) })
	}
	lose := []func(*testbed, *rand.Rand){overflow, purge, remove}[random.IntN(3)]
	s.upset = func(a *testbed, random *rand.Rand) {
		for range 1 + random.IntN(2) {
			a.publishMore(random.Uint64N(30))
			a.duringFault(random, func() {
				a.publishMore(10 + random.Uint64N(30))
				lose(a, random)
				a.publishMore(random.Uint64N(5))
			})
		}
	}
}

// drawRecreated deletes and recreates the stream of events, while nodes read it or while no node reaches it. Orders of
// both streams are shipped in the new one.
func drawRecreated(s *scenario, random *rand.Rand) {
	s.nodes = [][]string{nodePlan(random)}
	if random.IntN(2) == 0 {
		s.nodes = [][]string{killPlans(random, 1+random.IntN(2), intakeFailpoints)}
	}
	s.addNode(random, 3)
	s.stage = func(a *testbed, _ *rand.Rand) {
		const n = 150
		var lost int
		a.play = func() { a.publishCreated(n, 10*time.Millisecond) }
		a.after = func() {
			for i := 0; i < n; i += 3 {
				a.publish("orders.shipped", orderKey(i), "")
			}
		}
		a.model = func(ctx context.Context) (err error) {
			lost, err = a.CheckRecreated(ctx, a.sources[0], a.acked)
			return err
		}
		a.Cleanup(func() { a.Logf("%d events were lost", lost) })
	}
	s.upset = func(a *testbed, random *rand.Rand) {
		for range 1 + random.IntN(2) {
			a.publishMore(10 + random.Uint64N(40))
			if random.IntN(2) == 0 {
				recreateStream(a, random)
				continue
			}
			a.duringFault(random, func() {
				a.publishMore(random.Uint64N(30))
				recreateStream(a, random)
				a.publishMore(random.Uint64N(20))
			})
		}
	}
}

// duringFault calls do while the link to the broker has a fault.
func (a *testbed) duringFault(random *rand.Rand, do func()) {
	f := faultOf(random, []string{"cut", "half-open", "slow", "narrow"}[random.IntN(4)])
	a.record("the link to the broker is %s", f.name)
	a.broker.inject(f)
	do()
	a.broker.remove(f)
	a.record("the link to the broker is whole again")
}

// publishMore waits until the stream has n more events, or all are published.
func (a *testbed) publishMore(n uint64) {
	var from uint64
	for i := range 500 {
		var last uint64
		a.stream(func(ctx context.Context, s jetstream.Stream) error {
			info, err := s.Info(ctx)
			if err == nil {
				last = info.State.LastSeq
			}
			return err
		})
		if i == 0 {
			from = last
		}
		if last >= from+n {
			return
		}
		pause(10 * time.Millisecond)
	}
}

// publishCreated publishes orders that are never shipped.
func (a *testbed) publishCreated(n int, pace time.Duration) {
	a.Helper()
	a.wait()
	for i := range n {
		a.publish("orders.created", orderKey(i), "")
		pause(pace)
	}
	a.record("played")
}

// overflow limits the stream to the last few events.
func overflow(a *testbed, random *rand.Rand) {
	limit := 1 + random.Int64N(8)
	a.record("the stream keeps %d events", limit)
	a.configure(func(c *jetstream.StreamConfig) { c.MaxMsgs = limit })
	a.publishMore(random.Uint64N(5))
	a.configure(func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 })
}

// purge empties the stream.
func purge(a *testbed, _ *rand.Rand) {
	a.record("the stream is purged")
	a.stream(func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
}

// remove deletes some of the last events, which leaves gaps.
func remove(a *testbed, random *rand.Rand) {
	a.stream(func(ctx context.Context, s jetstream.Stream) error {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		for back := range uint64(10) {
			if random.IntN(2) == 0 {
				a.record("event %d is deleted", info.State.LastSeq-back)
				err = errors.Join(err, s.DeleteMsg(ctx, info.State.LastSeq-back))
			}
		}
		return err
	})
}

// recreateStream deletes the stream of events and recreates it, at once or after a while without events. A node may have
// added its subjects to another stream by then.
func recreateStream(a *testbed, random *rand.Rand) {
	a.publishing.Lock()
	defer a.publishing.Unlock()
	if err := a.jetStream().DeleteStream(a.Context(), a.sources[0]); err != nil {
		a.Error(err)
		return
	}
	a.record("the stream is deleted")
	if random.IntN(2) == 0 {
		pause(span(random, 100*time.Millisecond, 3*time.Second))
	}
	a.replaceStream(a.sources[0], "orders.>", "DEADMAN_EVENTS")
	a.record("the stream is made again")
}

// replaceStream creates a stream of a subject that another stream may have or get meanwhile. That other stream, which has
// no events, is then deleted.
func (a *testbed) replaceStream(name, subject, other string) {
	a.Helper()
	js := a.jetStream()
	eventually(a.T, time.Minute, "the broker makes a stream instead of "+other, func() bool {
		_, err := js.CreateStream(a.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		if err == nil {
			return true
		}
		a.record("stream %s is not made: %v", name, err)
		if err := js.DeleteStream(a.Context(), other); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			a.Error(err)
		}
		return false
	})
}

// stream calls do with the stream of events.
func (a *testbed) stream(do func(context.Context, jetstream.Stream) error) {
	a.Helper()
	stream, err := a.jetStream().Stream(a.Context(), a.sources[0])
	if err == nil {
		err = do(a.Context(), stream)
	}
	if err != nil {
		a.Error(err)
	}
}

// configure changes the configuration of the stream of events.
func (a *testbed) configure(change func(*jetstream.StreamConfig)) {
	a.Helper()
	a.stream(func(ctx context.Context, s jetstream.Stream) error {
		config := s.CachedInfo().Config
		change(&config)
		_, err := a.jetStream().UpdateStream(ctx, config)
		return err
	})
}
