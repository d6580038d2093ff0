package faults_test

import (
	"maps"
	"syscall"
	"testing"
	"time"

	"deadman/server"
)

func TestThreeNodesShareShards(t *testing.T) {
	c := newCluster(t)
	a, b, d := c.start("a"), c.start("b"), c.start("d")
	eventually(t, 3*lease, "each shard has one holder, and each node its share", func() bool { return c.isSpread(a, b, d) })

	d.stop()
	clean := eventually(t, lease, "a clean stop gives the shards over", func() bool { return c.isSpread(a, b) })
	b.kill()
	killed := eventually(t, 2*lease, "the shards of a killed node are taken over", func() bool { return c.isSpread(a) })
	t.Logf("taken over %s after a clean stop, %s after a kill, with a lease of %s", clean, killed, lease)
}

func TestKilledNodes(t *testing.T) {
	c := newCluster(t)
	a, b, d := c.start("a"), c.start("b"), c.start("d")
	eventually(t, 3*lease, "three nodes share", func() bool { return c.isSpread(a, b, d) })

	played := publishOrdersAt(t, c.NATS, 0, 600, 20*time.Millisecond)
	for i, victim := range []*process{a, b, d} {
		eventually(t, 20*time.Second, "some more orders are watched", func() bool { return count(t, c.Checker).Created > 100*(i+1) })
		victim.kill()
		c.start(victim.name + "2")
	}
	settled(t, c.Checker, <-played)
}

// A suspended node is dead to the other one, which takes over its shards, streams and outbox (decision 52): all due
// jobs are decided and published while the node is suspended. After it resumes, it writes nothing of its former shards,
// is not reported as unfit, and gets its share of the shards at once.
func TestNodeSuspendedBeyondItsLease(t *testing.T) {
	c := newCluster(t)
	a, b := c.start("a"), c.start("b")
	eventually(t, 3*lease, "two nodes share", func() bool { return c.isSpread(a, b) })

	played := publishOrdersAt(t, c.NATS, 0, 600, 20*time.Millisecond)
	eventually(t, 20*time.Second, "orders are watched", func() bool { return count(t, c.Checker).Alerts > 20 })
	a.signal(syscall.SIGSTOP)
	asleep := time.Now()
	eventually(t, 3*lease, "the other node takes over", func() bool { return c.isSpread(b) })
	unshipped := <-played
	eventually(t, time.Minute, "every unshipped order is escalated and published while the node sleeps", func() bool {
		return escalated(t, c.Checker) == len(unshipped) && count(t, c.Checker).Unpublished == 0
	})
	t.Logf("asleep for %s, with a lease of %s", time.Since(asleep).Round(time.Second), lease)
	more := publishOrdersAt(t, c.NATS, 600, 700, 20*time.Millisecond)
	a.signal(syscall.SIGCONT)
	eventually(t, 3*lease, "the node that slept takes its share again", func() bool { return c.isSpread(a, b) })
	maps.Copy(unshipped, <-more)
	settled(t, c.Checker, unshipped)
	published, err := c.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range published {
		if s.Step == "unfit" {
			t.Errorf("a node is reported as unfit: %+v", s)
		}
	}
}

// A node with an embedded database is alone: it regains its shards at once.
func TestKilledEmbeddedNode(t *testing.T) {
	dir, unshipped := t.TempDir(), map[string]bool{}
	for i, name := range []string{"a", "a2", "a3"} {
		node := startNode(t, name, "--data-dir", dir, "--nats-addr", "127.0.0.1:0")
		c := checkerOf(t, server.Config{DataDir: dir}, node.at)
		if i == 2 {
			settled(t, c, unshipped)
			return
		}
		maps.Copy(unshipped, <-publishOrdersAt(t, c.NATS, 150*i, 150*(i+1), 10*time.Millisecond))
		eventually(t, 20*time.Second, "some of the alerts are published", func() bool { return count(t, c).Alerts > 60*i+10 })
		node.kill()
	}
}
