package server

import (
	"context"
	"log/slog"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// clockSync keeps the clock of the engine in line with the database, the broker and the other nodes.
type clockSync struct {
	store        *store.Store
	clock        *futurejobs.Clock
	shifter      *futurejobs.Shifter
	gapDetector  *futurejobs.GapDetector
	sharesBroker bool // the broker in this process has the clock of the database in its folder
}

// place returns the engine's time of an event with the given broker time. A broker in this process shares its clock
// with the database in its folder.
func (c *clockSync) place(at time.Time) time.Time {
	if c.sharesBroker {
		return c.clock.PlaceShared(context.Background(), at) // it blocks for at most one second
	}
	return c.clock.Place(at, false)
}

// learn initializes the clock from the running nodes. If they follow a step meanwhile, it is learned too.
func (c *clockSync) learn(ctx context.Context, interval time.Duration) error {
	nodes := c.store.Nodes
	if c.store.SingleProcess() {
		nodes = func(context.Context) ([]futurejobs.Node, error) { return nil, nil }
	}
	for isNew := true; isNew; {
		if err := c.clock.Learn(ctx, nodes, interval); err != nil {
			return err
		}
		var err error
		if isNew, err = c.store.KnowSteps(ctx); err != nil {
			return err
		}
	}
	return nil
}

// namedMost is the largest number of nodes that a log line names.
const namedMost = 10

// waitingLog logs that a start waits for heartbeats of nodes.
func waitingLog(log *slog.Logger) func([]futurejobs.Node, time.Time) {
	return func(nodes []futurejobs.Node, until time.Time) {
		var names []string
		for _, n := range nodes[:min(len(nodes), namedMost)] {
			names = append(names, n.Name)
		}
		log.Info("waiting to take the time from a running node: nodes are registered in the database, and none has sent a heartbeat lately, as after a crash of all nodes; the start goes on with the first heartbeat, or at the time of until if no node runs",
			"nodes", names, "registered", len(nodes), "until", until)
	}
}

// follow records a clock step before the engine applies it, and finds the jobs to move.
func (c *clockSync) follow(ctx context.Context, by time.Duration, isBack bool) error {
	if err := c.store.FollowStep(ctx, by, isBack); err != nil {
		return err
	}
	return c.shifter.Refresh(ctx)
}

// isListening returns nil once detected gaps are in the database, and no job of a held shard only seems to be due after
// a clock step.
func (c *clockSync) isListening(ctx context.Context) error {
	if err := c.shifter.Ready(); err != nil {
		return err
	}
	return c.gapDetector.Flush(ctx)
}
