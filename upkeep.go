package deadman

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"deadman/alerts"
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
	said  func(alerts.Alert, bool, error) error
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

// step does each part of the upkeep. One that fails is logged and keeps none of the others from being done.
func (u *upkeep) step(ctx context.Context) {
	for _, part := range []struct {
		failed string // is logged with the error
		do     func(context.Context) error
	}{
		{"what a clock that was ahead wrote is not put back", u.putBack},
		{"upkeep failed", u.prune},
		{"the state of the history tables cannot be read or reported", u.watchHistory},
		{"not all that rules expect to beat is waited for", u.expect},
		{"the jobs of a deleted rule are still there", u.sweepDeleted},
	} {
		if err := part.do(ctx); err != nil && ctx.Err() == nil {
			u.log.Error(part.failed+"; trying again", "again_in", upkeepEvery, "err", err)
		}
	}
}

// putBack takes back what a clock that was ahead wrote, also where no node saw it step.
func (u *upkeep) putBack(ctx context.Context) error {
	return u.store.PutBack(ctx, store.RoutineNotices)
}

func (u *upkeep) prune(ctx context.Context) error {
	pruned, err := u.store.Prune(ctx, u.keep)
	if pruned != (store.Pruned{}) {
		u.log.Info("pruned", "history", pruned.History, "alerts", pruned.Alerts, "dead_letters", pruned.DeadLetters, "audit", pruned.Audit, "pings", pruned.Pings)
	}
	return err
}

func (u *upkeep) expect(ctx context.Context) error {
	_, err := u.rules.Expect(ctx)
	return err
}

func (u *upkeep) sweepDeleted(ctx context.Context) error {
	ended, err := u.rules.Sweep(ctx)
	if ended > 0 {
		u.log.Info("ended the jobs of deleted rules", "jobs", ended)
	}
	return err
}

// historyLate is how long before a day begins its table has to be there.
const historyLate = 6 * time.Hour

// watchHistory raises an alert when the table of tomorrow's history could not be made, and resolves it once
// the table is there.
func (u *upkeep) watchHistory(ctx context.Context) error {
	day, now, err := u.store.HistoryUnready(ctx)
	if err != nil {
		return err
	}
	r := historyRemark(day, now)
	if r.Status == alerts.Resolved {
		return u.said(u.store.EndRemark(ctx, r))
	}
	u.log.Warn("the table of tomorrow's history is missing", "day", day.Format(time.DateOnly))
	return u.said(u.store.BeginRemark(ctx, r))
}

// historyRemark is the remark about the first day after today without a table; the zero day means that all
// days have one.
func historyRemark(day, now time.Time) alerts.Remark {
	r := alerts.Remark{Topic: "history", Step: "unready", Status: alerts.Firing, Severity: alerts.Warning, Since: now}
	if day.IsZero() || day.Sub(now) > historyLate {
		r.Status, r.Text = alerts.Resolved, "the table of tomorrow's history is there"
		return r
	}
	r.Text = fmt.Sprintf("no table for the history of %s could be made: a long transaction, such as a backup, reads history; end it before 00:00 UTC, or that day is kept in the default table and pruned row by row",
		day.Format(time.DateOnly))
	return r
}
