package simulation_test

import (
	"context"
	"sync"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/pings"
	"deadman/internal/scheduler"
	"deadman/rules"
)

// node is one start of a node: the parts of deadman that read events, check jobs and publish alerts, wired as package server
// does, with the clients of a gate in place of the database and the broker.
type node struct {
	*gate
	catalog     *rules.Catalog
	clock       *futurejobs.Clock
	owner       *futurejobs.Owner
	sweeper     *futurejobs.Sweeper
	gapDetector *futurejobs.GapDetector
	intake      *events.Intake
	relay       *alerts.Relay
	ticker      *scheduler.Scheduler
	stored      *scheduler.Stored
	pings       *pings.Receiver
	pingLog     *pings.LogWriter
}

func newNode(w *deployment, name string, start int) *node {
	g := newGate(w, name, start)
	id, local := g.id(), func() time.Time { return w.local(name) }
	log, d, b := w.log(id), databaseClient{g, w.store}, brokerClient{g, w.broker}
	n := &node{gate: g, catalog: rules.NewCatalog(ruleClient{d}, w.store.Shards()), clock: futurejobs.NewClock(d.Now, local)}
	n.owner = futurejobs.NewOwner(d, futurejobs.Node{ID: id, Name: id}, leaseFor, local, log)
	n.sweeper = futurejobs.NewSweeper(d, n.catalog, n.owner, n.clock, 2, log)
	n.gapDetector = futurejobs.NewGapDetector(d, id, local, log)
	n.intake = events.NewIntake(events.Options{
		Streams: b, Catalog: n.catalog, Store: d, Shards: n.owner, Now: n.clock.Now, Announce: d.announce, Log: log,
	})
	n.relay = alerts.NewRelay(d, b, n.owner.Holding, log)
	n.ticker = scheduler.New(scheduler.Options{
		Catalog: n.catalog, Cursors: tickClient{d}, Emitter: b, Shards: n.owner, Now: n.clock.Now, Announce: d.announce, Observer: tickObserver{}, Log: log,
	})
	n.stored = &scheduler.Stored{
		Catalog: rules.StoredCatalog{Catalog: n.catalog}, Store: storedClient{d}, Emitter: b, Held: n.owner.HeldShards, Now: n.clock.Now,
		Announce: d.announce, Observer: tickObserver{}, Log: log, Jitter: func(most time.Duration) time.Duration { return g.luck("Jitter").between(0, most) },
	}
	n.pingLog = &pings.LogWriter{Store: pingLog{w.store, g}, Log: log}
	n.pings = pings.NewReceiver(pings.Receiver{
		Catalog: n.catalog, Effects: pingClient{d}, Shards: w.store.Shards(), Now: n.clock.Now, Observer: pingObserver{}, Log: n.pingLog,
	})
	n.owner.Changed = func() { n.sweeper.Wake(); n.intake.Wake(); n.ticker.Wake(); n.stored.Wake() }
	n.owner.Unfit = func() string { return n.sweeper.Unfit(leaseFor) }
	n.catalog.Changed = func() { n.sweeper.Wake(); n.ticker.Wake(); n.stored.Wake() }
	n.sweeper.BeforeSweep = n.gapDetector.Flush
	n.clock.Changed = func() { n.sweeper.Wake(); n.ticker.Wake(); n.stored.Wake() }
	return n
}

// run runs the node until ctx ends. The leases are given back last.
func (n *node) run(ctx context.Context) {
	var working, holding sync.WaitGroup
	kept, letGo := context.WithCancel(context.WithoutCancel(ctx))
	holding.Go(func() { _ = n.owner.Run(kept) })
	working.Go(func() { _ = n.sweeper.Run(ctx, ctx) })
	for _, part := range []func(context.Context) error{n.gapDetector.Run, n.clock.Run, n.intake.Run, n.relay.Run, n.ticker.Run, n.stored.Run, n.pings.Run, n.pingLog.Run} {
		working.Go(func() { _ = part(ctx) })
	}
	working.Wait()
	letGo()
	holding.Wait()
}

// tickObserver ignores ticks: the ledger sees them.
type tickObserver struct{}

// Ticked implements scheduler.Observer.
func (tickObserver) Ticked(string, futurejobs.TickOutcome, int) {}

// Alerted implements scheduler.Observer.
func (tickObserver) Alerted(alerts.Alert) {}
