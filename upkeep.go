package deadman

import (
	"context"
	"log/slog"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/store"
)

// upkeepEvery is how often rows past their time are removed.
const upkeepEvery = time.Minute

// upkeepShard is the shard whose holder does the upkeep.
const upkeepShard = 0

// upkeep removes what retention no longer keeps.
type upkeep struct {
	store *store.Store
	owner *futurejobs.Owner
	keep  store.Retention
	log   *slog.Logger
}

// Run prunes until ctx ends, on the node that holds the upkeep's shard.
func (u *upkeep) Run(ctx context.Context) error {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		if u.owner.Holds(upkeepShard) {
			u.step(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (u *upkeep) step(ctx context.Context) {
	pruned, err := u.store.Prune(ctx, u.keep)
	switch {
	case err != nil && ctx.Err() == nil:
		u.log.Error("upkeep failed; trying again", "again_in", upkeepEvery, "err", err)
	case pruned != (store.Pruned{}):
		u.log.Info("pruned", "history", pruned.History, "alerts", pruned.Alerts, "dead_letters", pruned.DeadLetters)
	}
}
