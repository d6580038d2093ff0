package deadman

import (
	"context"
	"log/slog"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/store"
)

// upkeepEvery is how often rows past their time are removed.
const upkeepEvery = time.Minute

// upkeepShard is the shard whose holder does the upkeep.
const upkeepShard = 0

// upkeep removes what retention no longer keeps, waits for what rules expect to beat, and ends the
// jobs of deleted rules.
type upkeep struct {
	store *store.Store
	rules *rules.Registry
	wake  chan struct{} // a rule may have been deleted
	owner *futurejobs.Owner
	keep  store.Retention
	log   *slog.Logger
}

// Wake makes the next round begin at once.
func (u *upkeep) Wake() {
	select {
	case u.wake <- struct{}{}:
	default: // it is going to wake
	}
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
		case <-u.wake:
		}
	}
}

func (u *upkeep) step(ctx context.Context) {
	pruned, err := u.store.Prune(ctx, u.keep)
	switch {
	case err != nil && ctx.Err() == nil:
		u.log.Error("upkeep failed; trying again", "again_in", upkeepEvery, "err", err)
		return
	case pruned != (store.Pruned{}):
		u.log.Info("pruned", "history", pruned.History, "alerts", pruned.Alerts, "dead_letters", pruned.DeadLetters, "audit", pruned.Audit, "pings", pruned.Pings)
	}
	if _, err := u.rules.Expect(ctx); err != nil && ctx.Err() == nil {
		u.log.Error("not all that rules expect to beat is waited for; trying again", "again_in", upkeepEvery, "err", err)
	}
	switch ended, err := u.rules.Sweep(ctx); {
	case err != nil && ctx.Err() == nil:
		u.log.Error("the jobs of a deleted rule are still there; trying again", "again_in", upkeepEvery, "err", err)
	case ended > 0:
		u.log.Info("ended the jobs of deleted rules", "jobs", ended)
	}
}
