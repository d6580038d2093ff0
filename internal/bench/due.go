package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// FewPending is the number of pending jobs for the reads beside few of them.
const FewPending = 300_000

const (
	dueReads = 100 // per round
	dueWarm  = 10  // before the round
	duePage  = 250 // jobs per shard that a sweep of all shards reads at a time
)

// dueQuery returns the first query of a sweep.
func dueQuery(walks []futurejobs.ShardCursor, now time.Time) futurejobs.DueQuery {
	return futurejobs.DueQuery{Cursors: walks, Until: now, Limit: duePage}
}

// dueWays read the first due jobs of all shards, as a sweep does: beside few pending jobs, in a schema of their own,
// and beside all of them.
func dueWays(ctx context.Context, g database, o Options) (ways []contender, over func(context.Context) error, err error) {
	beside := o
	beside.Pending, beside.Scattered = o.Few, false
	if beside.Pending == 0 {
		beside.Pending = FewPending
	}
	beside.Dir += "/few"
	few, err := open(ctx, beside)
	if err != nil {
		return nil, nil, err
	}
	over = func(ctx context.Context) error { return errors.Join(few.pends(ctx), few.close(ctx)) }
	if err := few.pend(ctx, beside); err != nil {
		return nil, nil, errors.Join(err, few.close(context.WithoutCancel(ctx)))
	}
	for _, r := range []reading{{ground: few, pending: beside.Pending, jobs: o.Jobs}, {ground: g, pending: o.Pending, jobs: o.Jobs}} {
		ways = append(ways, contender{fmt.Sprintf("pending=%d", r.pending), r.measure})
	}
	return ways, over, nil
}

// reading reads due jobs beside pending ones.
type reading struct {
	ground        database
	pending, jobs int
}

func (r reading) measure(ctx context.Context) (result Result, err error) {
	if err := r.ground.clear(ctx); err != nil {
		return result, fmt.Errorf("clear: %w", err)
	}
	if err := r.ground.fill(ctx, Finish, r.jobs, 0); err != nil {
		return result, fmt.Errorf("fill: %w", err)
	}
	s, err := r.ground.store(ctx)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return r.read(ctx, s)
}

// read reads the same jobs repeatedly.
func (r reading) read(ctx context.Context, s *store.Store) (result Result, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return result, err
	}
	walks := make([]futurejobs.ShardCursor, shards)
	for i := range walks {
		walks[i].Shard = int16(i)
	}
	q := dueQuery(walks, now)
	jobs := 0
	for range dueWarm {
		found, err := s.Due(ctx, q)
		if err != nil {
			return result, err
		}
		jobs = len(found)
	}
	watch := watchMemory()
	defer watch.stop()
	cpu, begun, took := processTime(), time.Now(), make([]time.Duration, dueReads)
	for i := range took {
		started := time.Now()
		found, err := s.Due(ctx, q)
		if err != nil {
			return result, err
		}
		took[i] = time.Since(started)
		if len(found) != jobs || jobs == 0 {
			return result, fmt.Errorf("a read returned %d jobs, and an earlier one %d", len(found), jobs)
		}
	}
	result = Result{
		Shape: Due, Way: fmt.Sprintf("pending=%d", r.pending), Jobs: jobs * dueReads, Took: time.Since(begun),
		CPU: processTime() - cpu, Memory: watch.peak(),
	}
	result.quantiles(took)
	result.Buffers, err = s.DueBuffers(ctx, q)
	return result, err
}
