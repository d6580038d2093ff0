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

// How long nodes may take to share the shards out, and how often that is looked at.
const (
	shareMost = 30 * time.Second
	restMost  = time.Minute // to find nothing left
	shareLook = 20 * time.Millisecond
)

// cluster is nodes that hold the shards of one database between them, and do not sweep yet.
type cluster struct {
	nodes  []*node
	tally  *tally
	sweeps sync.WaitGroup
	cease  context.CancelFunc // the sweeps; nil: they have not begun
}

// node is what a node needs to sweep, and no more.
type node struct {
	store   *store.Store
	owner   *futurejobs.Owner
	sweeper *futurejobs.Sweeper
	stop    context.CancelFunc
	stopped chan error
	swept   error // what the sweep ended with
}

// startNodes starts nodes and returns once they hold all shards in fair shares. sources are what
// their rules look up in; nil: nothing.
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
	book := rules.NewCatalog(s, s.Shards())
	book.Sources = sources
	if err := book.Refresh(ctx); err != nil {
		return err
	}
	n := &node{store: s, stopped: make(chan error, 1)}
	n.owner = futurejobs.NewOwner(s, futurejobs.Node{ID: name, Name: name}, 15*time.Second, time.Now, log)
	n.sweeper = futurejobs.NewSweeper(s, book, n.owner, futurejobs.NewClock(s.Now, time.Now), 64, log)
	n.sweeper.Observer = c.tally
	n.owner.Changed = n.sweeper.Wake
	holding, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	go func() { n.stopped <- n.owner.Run(holding) }()
	c.nodes = append(c.nodes, n)
	return nil
}

// shared waits until all shards are held, by each node as many as by the others.
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

// drain has all nodes sweep, and returns once so many jobs are settled. They sweep on until stop.
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

// rests is how many sweeps after the last decision show that a node has nothing left: one may have begun
// before it, and one forgets what was decided.
const rests = 3

// rest waits until each node that sweeps has found nothing left to do.
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
				return errors.Join(fmt.Errorf("a node that has nothing left to do does not come through %d sweeps in %v", rests, restMost), n.sweeper.Err())
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

// stop has the nodes end their sweeps and give their shards back.
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

// Checked counts a job that was settled; what was dropped is checked again.
func (t *tally) Checked(_, outcome string, _ time.Duration) {
	if outcome != "dropped" && t.left.Add(-1) == 0 {
		close(t.none)
	}
}

// Alerted is of futurejobs.Observer.
func (t *tally) Alerted(alerts.Alert) {}

// saveRule saves the one rule of a text; it listens to events from the start of their streams.
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
