// Package scheduler applies the ticks of schedules: each once, by whichever node comes first, over
// restarts and changes of who does it.
package scheduler

import (
	"context"
	"errors"
	"sync"
)

// Scheduler waits for ticks and applies them. Rules that emit have a worker of their own: a broker that
// does not answer holds up nobody who waits.
type Scheduler struct{ waits, emits *worker }

// New returns a ticker that is not running yet.
func New(o Options) *Scheduler {
	return &Scheduler{waits: newWorker(o, false), emits: newWorker(o, true)}
}

// Wake says that the shards or the rules changed. It is a hint; the ticker looks by itself too.
func (t *Scheduler) Wake() {
	t.waits.wakeUp()
	t.emits.wakeUp()
}

// Err is why ticks cannot be applied at the moment, or nil.
func (t *Scheduler) Err() error { return errors.Join(t.waits.err(), t.emits.err()) }

// Run applies ticks until ctx ends, while the node holds the shard. What fails is tried again for
// ever; Err says so.
func (t *Scheduler) Run(ctx context.Context) error {
	var working sync.WaitGroup
	working.Go(func() { t.waits.run(ctx) })
	working.Go(func() { t.emits.run(ctx) })
	working.Wait()
	return nil
}
