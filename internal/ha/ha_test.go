package ha_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/longtest"
)

const (
	before = 5 * time.Second  // the load before a fault
	after  = 8 * time.Second  // the load after the repair
	outage = 5 * time.Second  // of a server that starts again
	short  = 20 * time.Second // until the repair, if a part takes over at once
	failed = 30 * time.Second // until the repair of a primary
)

// failure is a fault of one part.
type failure struct {
	name   string
	way    string // of the nodes to Postgres; empty: that of the flag
	lasts  time.Duration
	strike func(b *bed) (repair func())
}

// failures are the faults after which no alert may be lost, repeated or wrong.
var failures = []failure{
	{"the machine of the primary dies", "", failed, killPrimary},
	{"the Postgres server of the primary dies", "", failed, killPrimaryServer},
	{"switchover", "", short, func(b *bed) func() {
		b.switchOver(b.memberIn("leader"), b.memberIn("sync_standby"))
		return func() {}
	}},
	{"the machine of the synchronous standby dies", "", short, func(b *bed) func() {
		m := b.memberIn("sync_standby")
		m.killMachine()
		return m.start
	}},
	{"a NATS server dies", "", short, func(b *bed) func() {
		s := b.streamLeader("ORDERS")
		s.kill()
		return s.start
	}},
	{"a node dies", "", short, func(b *bed) func() {
		b.nodes[0].kill()
		return b.nodes[0].start
	}},
	{"PgBouncer dies", transactions, short, func(b *bed) func() { return b.restart(b.pooler) }},
	{"HAProxy dies", "", short, func(b *bed) func() { return b.restart(b.haproxy) }},
	{"the machine of the primary dies, pooled sessions", sessions, failed, killPrimary},
	{"the machine of the primary dies, HAProxy", proxied, failed, killPrimary},
	{"the machine of the primary dies, all hosts", direct, failed, killPrimary},
}

func killPrimary(b *bed) func() {
	m := b.memberIn("leader")
	m.killMachine()
	return m.start
}

// killPrimaryServer kills Postgres alone: Patroni gives the role to a standby, and starts the server as one.
func killPrimaryServer(b *bed) func() {
	b.memberIn("leader").killPostgres()
	return func() {}
}

// restart kills a server, and starts it again after some seconds.
func (b *bed) restart(p *process) (repair func()) {
	p.kill()
	pause(b.T, outage)
	p.start()
	return func() {}
}

// streamLeader returns the NATS server that leads a stream.
func (b *bed) streamLeader(stream string) *process {
	b.Helper()
	var leader *process
	within(b.T, "the stream "+stream+" has a leader", func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err != nil {
			return err
		}
		for _, p := range b.nats {
			if p.name == s.CachedInfo().Cluster.Leader {
				leader = p
				return nil
			}
		}
		return fmt.Errorf("its leader is %q", s.CachedInfo().Cluster.Leader)
	})
	return leader
}

// awaitNATS waits until each stream has all replicas.
func (b *bed) awaitNATS() {
	b.Helper()
	for _, name := range []string{"ORDERS", "DEADMAN_ALERTS"} {
		within(b.T, "the stream "+name+" has all replicas", func(ctx context.Context) error {
			s, err := b.js.Stream(ctx, name)
			if err != nil {
				return err
			}
			return complete(s.CachedInfo())
		})
	}
}

// complete returns an error if a replica of a stream is missing or behind.
func complete(info *jetstream.StreamInfo) error {
	if info.Config.Replicas != members || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != members-1 {
		return fmt.Errorf("its cluster is %+v", info.Cluster)
	}
	for _, r := range info.Cluster.Replicas {
		if !r.Current || r.Offline {
			return fmt.Errorf("the replica on %s is not current", r.Name)
		}
	}
	return nil
}

// in makes a subtest the one that fails.
func (b *bed) in(t *testing.T) {
	b.T = t
	all := append([]*process{b.haproxy, b.pooler}, b.etcd...)
	for _, m := range b.pg {
		all = append(all, m.process)
	}
	for _, p := range append(append(all, b.nats...), b.nodes...) {
		p.t = t
	}
}

// TestHighAvailability breaks each part in turn, under load.
func TestHighAvailability(t *testing.T) {
	longtest.Only(t, "it breaks each part of a deployment, for a quarter of an hour")
	b := newBed(t)
	defer b.in(t)
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			b.in(t)
			b.suffer(f)
		})
	}
	t.Run("an asynchronous standby loses commits", func(t *testing.T) {
		b.in(t)
		b.loseCommits()
	})
}

// suffer runs a load through a failure and judges it.
func (b *bed) suffer(f failure) {
	b.Helper()
	b.awaitPostgres()
	b.awaitNATS()
	if f.way == "" {
		f.way = *pooling
	}
	b.startNodes(f.way)
	b.awaitNodes()
	l := b.startLoad(f.name)
	pause(b.T, before)
	fault := time.Now()
	repair := f.strike(b)
	pause(b.T, f.lasts)
	repair()
	pause(b.T, after)
	l.stop()
	l.judge(false).report(l, fault)
}
