package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// Timeouts of distributing the shards, and the polling interval.
const (
	shareMost = 30 * time.Second
	restMost  = time.Minute // until nothing is left to do
	shareLook = 20 * time.Millisecond
)

// cluster is a set of nodes that hold the shards of one database and do not sweep yet.
type cluster struct {
	nodes  []*node
	tally  *tally
	sweeps sync.WaitGroup
	cease  context.CancelFunc // stops the sweeps; nil: not started
}

// node has the parts of a node that a sweep needs.
type node struct {
	store   *store.Store
	owner   *futurejobs.Owner
	sweeper *futurejobs.Sweeper
	stop    context.CancelFunc
	stopped chan error
	swept   error // error of the sweep
}

// startNodes starts nodes and returns once they hold all shards in equal numbers. sources are the sources of their
// rules; nil: none.
func startNodes(ctx context.Context, open func(context.Context) (*store.Store, error), n int, sources rules.Sources) (*cluster, error) {
	c := &cluster{tally: &tally{none: make(chan struct{})}}
	for i := range n {
		s, err := open(ctx)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		if err := c.start(ctx, s, fmt.Sprintf("bench-%d", i+1), sources); err != nil {
			return nil, errors.Join(err, s.Close(), c.stop())
		}
	}
	if err := c.shared(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context, s *store.Store, name string, sources rules.Sources) error {
	log := slog.New(slog.DiscardHandler)
	catalog := rules.NewCatalog(s, s.Shards())
	catalog.Sources = sources
	if err := catalog.Refresh(ctx); err != nil {
		return err
	}
	n := &node{store: s, stopped: make(chan error, 1)}
	n.owner = futurejobs.NewOwner(s, futurejobs.Node{ID: name, Name: name}, 15*time.Second, time.Now, log)
	n.sweeper = futurejobs.NewSweeper(s, catalog, n.owner, futurejobs.NewClock(s.Now, time.Now), 64, log)
	n.sweeper.Observer = c.tally
	n.owner.Changed = n.sweeper.Wake
	holding, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	go func() { n.stopped <- n.owner.Run(holding) }()
	c.nodes = append(c.nodes, n)
	return nil
}

// shared waits until all shards are held in equal numbers.
func (c *cluster) shared(ctx context.Context) error {
	deadline := time.Now().Add(shareMost)
	for {
		held, least := 0, c.nodes[0].store.Shards()
		for _, n := range c.nodes {
			open := len(n.owner.Open())
			held, least = held+open, min(least, open)
		}
		shards := c.nodes[0].store.Shards()
		if held == shards && least >= shards/len(c.nodes) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the nodes hold %d of %d shards after %v; is another node on this database?", held, shards, shareMost), c.stop())
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), c.stop())
		case <-time.After(shareLook):
		}
	}
}

// drain starts the sweeps of all nodes and returns once the given number of jobs is settled. The sweeps continue until
// stop.
func (c *cluster) drain(ctx context.Context, jobs int) error {
	c.tally.left.Store(int64(jobs))
	working, cease := context.WithCancel(ctx)
	c.cease = cease
	for _, n := range c.nodes {
		c.sweeps.Go(func() { n.swept = n.sweeper.Run(working, ctx) })
	}
	select {
	case <-c.tally.none:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// rests is the number of sweeps after the last decision that show that a node has nothing left to do: one may have
// begun before it, and one drops the settled jobs from memory.
const rests = 3

// rest waits until no node has anything left to do.
func (c *cluster) rest(ctx context.Context) error {
	deadline := time.Now().Add(restMost)
	for _, n := range c.nodes {
		last := n.sweeper.SweptThrough()
		for swept := 0; swept < rests; {
			if now := n.sweeper.SweptThrough(); !now.Equal(last) {
				last, swept = now, swept+1
				continue
			}
			if time.Now().After(deadline) {
				return errors.Join(fmt.Errorf("an idle node did not complete %d sweeps in %v", rests, restMost), n.sweeper.Err())
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(shareLook):
			}
		}
	}
	return nil
}

// stop ends the sweeps and releases the leases.
func (c *cluster) stop() (err error) {
	if c.cease != nil {
		c.cease()
		c.sweeps.Wait()
	}
	for _, n := range c.nodes {
		n.stop()
		err = errors.Join(err, n.swept, <-n.stopped, n.store.Close())
	}
	c.nodes = nil
	return err
}

// tally counts the jobs that are left.
type tally struct {
	left atomic.Int64
	none chan struct{}
}

// Checked counts a settled job; a dropped check is repeated.
func (t *tally) Checked(_ string, _ futurejobs.CheckKind, outcome string, _ time.Duration) {
	if outcome != "dropped" && t.left.Add(-1) == 0 {
		close(t.none)
	}
}

// SettleTried implements futurejobs.Observer.
func (t *tally) SettleTried(time.Duration, error) {}

// Settled implements futurejobs.Observer.
func (t *tally) Settled(time.Duration, string) {}

// Alerted implements futurejobs.Observer.
func (t *tally) Alerted(alerts.Alert) {}

// saveRule saves the single rule of a text, with its streams read from the start.
func saveRule(ctx context.Context, s *store.Store, text string, reads ...rules.StreamBinding) error {
	documents, err := rules.Parse([]byte(text), "bench.yaml")
	if err != nil {
		return err
	}
	document, err := json.Marshal(documents[0])
	if err != nil {
		return err
	}
	saved := rules.RuleVersion{Name: documents[0].Name, Entity: documents[0].Entity, Document: document, Reads: reads}
	_, err = s.Save(ctx, saved, rules.AnyVersion)
	return err
}
