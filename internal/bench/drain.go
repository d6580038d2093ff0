package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// drainRun measures one way to do the work of a shape: all due jobs are settled.
type drainRun struct {
	name   string
	ground database
	shape  Shape
	jobs   int
	// ready prepares a way. do does the work; rest, if it isn't nil, waits until nothing is left to do after it; over
	// releases what ready created.
	ready func(ctx context.Context) (do, rest func(ctx context.Context) error, over func() error, err error)
	// held makes an old transaction keep the database from removing deleted rows.
	held bool
	// idles measures the cost of a sweep afterwards.
	idles bool
}

// OldSnapshot is the engine beside a transaction older than the work.
const OldSnapshot = "old-snapshot"

// drainingsOf returns the ways to drain, the floor first.
func drainingsOf(g database, shape Shape, o Options) []drainRun {
	engine := func(name string, nodes int) drainRun {
		return drainRun{name: name, ground: g, shape: shape, jobs: o.Jobs, ready: nodesReady(g, o.Jobs, nodes), idles: o.OldSnapshot}
	}
	ways := []drainRun{
		{name: Floor, ground: g, shape: shape, jobs: o.Jobs, ready: func(context.Context) (do, rest func(context.Context) error, over func() error, err error) {
			return func(ctx context.Context) error { return g.bare(ctx, shape) }, nil, func() error { return nil }, nil
		}},
		engine(Engine, 1),
	}
	if o.OldSnapshot {
		old := engine(OldSnapshot, 1)
		old.held = true
		ways = append(ways, old)
	}
	if o.Nodes > 1 {
		ways = append(ways, engine(fmt.Sprintf("nodes=%d", o.Nodes), o.Nodes))
	}
	return ways
}

// nodesReady starts the given number of nodes.
func nodesReady(g database, jobs, n int) func(context.Context) (do, rest func(context.Context) error, over func() error, err error) {
	return func(ctx context.Context) (do, rest func(context.Context) error, over func() error, err error) {
		c, err := startNodes(ctx, g.store, n, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		return func(ctx context.Context) error { return c.drain(ctx, jobs) }, c.rest, c.stop, nil
	}
}

// measure fills the tables, does the work, and checks that it was done once.
func (d drainRun) measure(ctx context.Context) (r Result, err error) {
	if err := d.ground.clear(ctx); err != nil {
		return r, fmt.Errorf("clear: %w", err)
	}
	if d.held {
		release, err := d.ground.openOldSnapshot(ctx)
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, release(context.WithoutCancel(ctx))) }()
	}
	if err := d.ground.fill(ctx, d.shape, d.jobs, 0); err != nil {
		return r, fmt.Errorf("fill: %w", err)
	}
	images, err := d.ground.fullPageImages(ctx)
	if err != nil {
		return r, err
	}
	if r, err = d.work(ctx); err != nil {
		return r, err
	}
	imaged, err := d.ground.fullPageImages(ctx)
	if err != nil {
		return r, err
	}
	r.Images = imaged - images
	if d.idles {
		if r.Idle, err = idle(ctx, d.ground); err != nil {
			return r, err
		}
	}
	r.text, err = d.ground.check(ctx, d.shape, d.jobs)
	return r, err
}

// work does the work and measures it.
func (d drainRun) work(ctx context.Context) (r Result, err error) {
	do, rest, over, err := d.ready(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, over()) }()
	before, err := d.ground.written(ctx)
	if err != nil {
		return r, err
	}
	watch := watchMemory()
	defer watch.stop()
	cpu, begun := processTime(), time.Now()
	if err := do(ctx); err != nil {
		return r, err
	}
	r = Result{Shape: d.shape, Way: d.name, Jobs: d.jobs, Took: time.Since(begun), CPU: processTime() - cpu, Memory: watch.peak()}
	after, err := d.ground.written(ctx)
	if err != nil {
		return r, err
	}
	r.WAL = after - before
	if d.idles && rest != nil {
		return r, rest(ctx)
	}
	return r, nil
}

// idle returns the number of database pages that a sweep reads per shard if nothing is due, from the cursor of the last
// node.
func idle(ctx context.Context, g database) (each float64, err error) {
	s, err := g.store(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	leases, err := s.Leases(ctx)
	if err != nil {
		return 0, err
	}
	var walks []futurejobs.ShardCursor
	for _, l := range leases {
		walks = append(walks, futurejobs.ShardCursor{Shard: l.Shard, At: l.LowWater})
	}
	touched, err := touched(ctx, s, walks)
	return float64(touched) / float64(len(leases)), err
}

// touched returns the number of database pages read by a query of due jobs.
func touched(ctx context.Context, s *store.Store, walks []futurejobs.ShardCursor) (int64, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	return s.DueBuffers(ctx, dueQuery(walks, now))
}
