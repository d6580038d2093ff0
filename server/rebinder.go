package server

import (
	"context"
	"log/slog"
	"time"

	"deadman/internal/periodic"
	"deadman/rules"
)

// rebindInterval is the interval at which the streams of the rules' subjects are looked up. Lookups fail while the
// broker is away, so the streams are also looked up within this time after its return.
const rebindInterval = 2 * time.Second

// rebinder moves the rules' subscriptions when their subjects move between streams.
type rebinder struct {
	rules  *rules.Registry
	holds  func() bool // this node does the maintenance
	status *periodic.Status
}

// newRebinder returns a rebinder.
func newRebinder(r *rules.Registry, holds func() bool, log *slog.Logger) *rebinder {
	return &rebinder{r, holds, periodic.NewStatus(log, slog.LevelWarn, "stream binding")}
}

// Run runs steps until ctx ends, while this node does the maintenance.
func (b *rebinder) Run(ctx context.Context) error { return b.status.Run(ctx, rebindInterval, b.step) }

func (b *rebinder) step(ctx context.Context) error {
	if !b.holds() {
		b.status.Reset() // another node does it
		return nil
	}
	_, err := b.rules.Rebind(ctx)
	return err
}

// Err returns the error of the last step, or nil.
func (b *rebinder) Err() error { return b.status.Err() }
