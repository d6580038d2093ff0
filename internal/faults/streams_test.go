package faults_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// streamDelay is the time between an event of one stream and the next event of the same order on the other: longer than the
// clocks of two servers may differ.
const streamDelay = 300 * time.Millisecond

// drawStreams makes orders be shipped on another stream than the one they are created on. One is read long after the
// other.
func drawStreams(s *scenario, random *rand.Rand) {
	lag := fmt.Sprintf("intake.read=sleep:%dms@0.5", 500+random.IntN(1500))
	s.nodes = [][]string{{seeded(random, lag)}}
	if random.IntN(2) == 0 {
		place := intakeFailpoints[random.IntN(len(intakeFailpoints))]
		s.nodes = [][]string{{seeded(random, fmt.Sprintf("%s=kill@%d;%s", place, 1+random.IntN(5), lag)), seeded(random, lag)}}
	}
	s.addNode(random, 2)
	s.stage = func(a *testbed, _ *rand.Rand) {
		a.makeStream("ORDERS", "orders.created", "orders.touched")
		a.makeStream("SHIPMENTS", "orders.shipped")
		a.sources = []string{"ORDERS", "SHIPMENTS"}
		a.play = func() { a.publishToStreams(4, 12) }
	}
}

// publishToStreams publishes orders in batches. Of each four one is never shipped, one soon and one late; a shipment of the
// fourth precedes the order, so it belongs to an older one.
func (a *testbed) publishToStreams(times, n int) {
	a.Helper()
	a.wait()
	each := func(time int, subject string, is func(i int) bool) {
		for i := range n {
			if is(i) {
				a.publish(subject, orderKey(time*n+i), "")
			}
		}
	}
	for t := range times {
		each(t, "orders.shipped", func(i int) bool { return i%4 == 3 })
		pause(streamDelay)
		each(t, "orders.created", func(int) bool { return true })
		each(t, "orders.touched", func(i int) bool { return i%5 == 0 })
		pause(streamDelay)
		each(t, "orders.shipped", func(i int) bool { return i%4 == 1 })
	}
	pause(3 * time.Second)
	for t := range times {
		each(t, "orders.shipped", func(i int) bool { return i%4 == 2 })
	}
	a.record("played")
}
