package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// rebindInterval is how often it is looked up which streams the rules' subjects come by. While the
// broker is away the look fails; so it is looked up within that time of its return, too.
const rebindInterval = 2 * time.Second

// rebinder has the rules follow their subjects from stream to stream.
type rebinder struct {
	rules *rules.Registry
	owner *futurejobs.Owner
	log   *slog.Logger

	mu  sync.Mutex
	err error
}

// Run looks until ctx ends, on the node that holds the upkeep's shard.
func (b *rebinder) Run(ctx context.Context) error {
	tick := time.NewTicker(rebindInterval)
	defer tick.Stop()
	for {
		if b.owner.Holds(maintenanceShard) {
			b.step(ctx)
		} else {
			_ = b.setErr(nil) // it is another node that looks
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (b *rebinder) step(ctx context.Context) {
	_, err := b.rules.Rebind(ctx)
	if ctx.Err() != nil {
		return
	}
	switch before := b.setErr(err); {
	case err != nil && (before == nil || before.Error() != err.Error()):
		b.log.Warn("rules cannot follow their subjects to other streams; trying again", "again_in", rebindInterval, "err", err)
	case err == nil && before != nil:
		b.log.Info("the rules read their subjects where these come by again")
	}
}

// setErr takes in how the last look went, and returns how the one before did.
func (b *rebinder) setErr(err error) (before error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.err = b.err, err
	return before
}

// Err is why rules cannot follow their subjects at the moment, or nil.
func (b *rebinder) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
