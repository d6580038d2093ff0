package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// rebindInterval is the interval at which the streams of the rules' subjects are looked up. Lookups fail while the
// broker is away, so the streams are also looked up within this time after its return.
const rebindInterval = 2 * time.Second

// rebinder moves the rules' subscriptions when their subjects move between streams.
type rebinder struct {
	rules *rules.Registry
	owner *futurejobs.Owner
	log   *slog.Logger

	mu  sync.Mutex
	err error
}

// Run runs steps until ctx ends, while this node holds the maintenance shard.
func (b *rebinder) Run(ctx context.Context) error {
	tick := time.NewTicker(rebindInterval)
	defer tick.Stop()
	for {
		if b.owner.Holds(maintenanceShard) {
			b.step(ctx)
		} else {
			_ = b.setErr(nil) // another node does it
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

// setErr records the result of the last step, and returns the previous one.
func (b *rebinder) setErr(err error) (before error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, b.err = b.err, err
	return before
}

// Err returns the error of the last step, or nil.
func (b *rebinder) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
