package faults_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// orders plays n orders at a steady pace, in the background; every third is never shipped.
// What comes back are the ones that never are, or nil after an error of the test's own.
func (c *cluster) orders(n int, pace time.Duration) <-chan map[string]bool {
	played := make(chan map[string]bool, 1)
	go func() {
		defer close(played)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		unshipped := map[string]bool{}
		for i := range n {
			id := fmt.Sprintf("order-%04d", i)
			err := c.publish("orders.created", id)
			if i%3 == 0 {
				unshipped[id] = true
			} else if err == nil {
				err = c.publish("orders.shipped", id)
			}
			if err != nil {
				c.Errorf("publish %s: %v", id, err)
				return
			}
			<-tick.C
		}
		played <- unshipped
	}()
	return played
}

// settled waits until every unshipped order was escalated, and checks the promises.
func (c *cluster) settled(unshipped map[string]bool) {
	c.Helper()
	ctx := c.Context()
	c.eventually(60*time.Second, "every unshipped order is escalated, and every alert published", func() bool {
		n, err := c.Count(ctx)
		if err != nil {
			c.Fatal(err)
		}
		return c.escalated() == len(unshipped) && n.Unpublished == 0
	})
	if err := c.Promises(ctx); err != nil {
		c.Error(err)
	}
	said, err := c.Stream(ctx)
	if err != nil {
		c.Fatal(err)
	}
	steps := map[string][]string{}
	for _, s := range said {
		if !unshipped[s.Key] {
			c.Errorf("a false alarm: %+v", s)
		}
		steps[s.Key] = append(steps[s.Key], s.Step)
	}
	for id := range unshipped {
		if got := fmt.Sprint(steps[id]); got != "[primary escalated]" && got != "[escalated]" {
			c.Errorf("%s: alerts %s", id, got)
		}
	}
}

func TestThreeNodesShareTheShards(t *testing.T) {
	c := newCluster(t)
	a, b, d := c.start("a"), c.start("b"), c.start("d")
	c.eventually(3*lease, "each shard has one holder, and each node its share", func() bool { return c.spread(a, b, d) })

	d.stop()
	clean := c.eventually(lease, "a clean stop gives the shards over", func() bool { return c.spread(a, b) })
	b.kill()
	killed := c.eventually(2*lease, "the shards of a killed node are taken over", func() bool { return c.spread(a) })
	t.Logf("taken over %s after a clean stop, %s after a kill, with a lease of %s", clean, killed, lease)
}

func TestNodesThatAreKilled(t *testing.T) {
	c := newCluster(t)
	a, b, d := c.start("a"), c.start("b"), c.start("d")
	c.eventually(3*lease, "three nodes share", func() bool { return c.spread(a, b, d) })

	play := c.orders(600, 20*time.Millisecond)
	for i, victim := range []*process{a, b, d} {
		c.eventually(20*time.Second, "some more orders are watched", func() bool {
			n, err := c.Count(t.Context())
			return err == nil && n.Created > 100*(i+1)
		})
		victim.kill()
		c.start(victim.name + "2")
	}
	c.settled(<-play)
}

func TestANodeThatSleepsThroughItsLease(t *testing.T) {
	c := newCluster(t)
	a, b := c.start("a"), c.start("b")
	c.eventually(3*lease, "two nodes share", func() bool { return c.spread(a, b) })

	play := c.orders(600, 20*time.Millisecond)
	c.eventually(20*time.Second, "orders are watched", func() bool {
		n, err := c.Count(t.Context())
		return err == nil && n.Alerts > 20
	})
	a.signal(syscall.SIGSTOP)
	c.eventually(3*lease, "the other node takes over", func() bool { return c.spread(b) })
	a.signal(syscall.SIGCONT)
	c.eventually(3*lease, "the node that slept takes its share again", func() bool { return c.spread(a, b) })
	c.settled(<-play)
}
