package store

import (
	"context"
	"errors"
	"time"
)

// pruneBatch is the largest number of rows that one transaction of retention deletes. SQLite has one writer, so checks wait
// for the transaction.
const pruneBatch = 500

// countPruned adds deleted rows to their count, which Balance needs.
const countPruned = `UPDATE pruned SET rows = rows + $1 WHERE name = $2`

// Retention is the time that data is kept after its use. Zero keeps it forever.
type Retention struct {
	History     time.Duration // also of applied ticks, and of the versions of rules that were deleted
	Alerts      time.Duration
	DeadLetters time.Duration
	Audit       time.Duration
	Pings       time.Duration // of the log, which keeps only the last ones of each key
}

// prune deletes the rows of a store beyond their retention.
func (r Retention) prune(ctx context.Context, s *Store) (Pruned, error) {
	var p Pruned
	now, err := s.Time(ctx)
	if err != nil {
		return p, wrapErr("prune", err)
	}
	errs := []error{
		s.createPartitions(ctx, now), s.forgetNodes(ctx, now), s.forgetEarly(ctx, now), s.forgetRequests(ctx, now), s.pruneCheckStarts(ctx),
		s.forgetLoads(ctx, now), s.forgetOutcomeHours(ctx, now), s.forgetAcks(ctx), s.forgetUnclosed(ctx), s.forgetUnresolved(ctx), s.forgetSessions(ctx, now), s.forgetBadgeKeys(ctx), s.forgetSchedules(ctx),
	}
	if r.History != 0 {
		errs = append(errs, s.forgetOutages(ctx, now.Add(-r.History)), s.forgetVersions(ctx, now.Add(-r.History)))
	}
	errs = append(errs, r.pruneEnded(ctx, s, now, &p))
	if r.DeadLetters != 0 {
		p.DeadLetters, err = s.pruneAll(ctx, "dead_letter", `DELETE FROM dead_letter WHERE id IN
	(SELECT id FROM (SELECT id, at FROM dead_letter ORDER BY id LIMIT $1) AS oldest WHERE at < $2)`, pruneBatch, now.Add(-r.DeadLetters))
		errs = append(errs, err)
	}
	if r.Audit != 0 {
		p.Audit, err = s.PruneAudit(ctx, now.Add(-r.Audit))
		errs = append(errs, err)
	}
	if r.Pings != 0 {
		p.PingAddresses, err = s.forgetPingAddresses(ctx, now.Add(-r.Pings))
		errs = append(errs, err)
		p.Pings, err = s.forgetPings(ctx, now.Add(-r.Pings))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return p, wrapErr("prune", err)
	}
	return p, nil
}

// pruneEnded deletes history, applied ticks and alerts: first the rows that are older than every period, then days of rows
// with a shorter period.
func (r Retention) pruneEnded(ctx context.Context, s *Store, now time.Time, p *Pruned) error {
	plan, err := s.retentionPlan(ctx, r)
	if err != nil {
		return err
	}
	var errs []error
	if longest := plan.longest(keptHistory); longest != 0 {
		p.History, err = s.dropHistoryBefore(ctx, now.Add(-longest), budget())
		errs = append(errs, err)
	}
	if longest := plan.longest(keptAlerts); longest != 0 {
		p.Alerts, err = s.RetentionStore.alerts.pruneAlerts(ctx, now.Add(-longest), budget())
		errs = append(errs, err, s.forgetNotices(ctx, now.Add(-longest), budget()))
	}
	p.Ticks, err = s.forgetTicks(ctx, plan, now, budget())
	errs = append(errs, err)
	if len(plan.own) == 0 {
		return errors.Join(errs...)
	}
	for _, of := range []struct {
		kind    keptKind
		deleted *int64
	}{{keptHistory, &p.History}, {keptAlerts, &p.Alerts}} {
		n, err := s.pruneDays(ctx, plan, of.kind, now, budget())
		*of.deleted += n
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Pruned has the numbers of rows that retention deleted.
type Pruned struct {
	History     int64
	Alerts      int64
	DeadLetters int64
	Audit       int64
	Pings       int64
	Ticks       int64 // of schedules

	PingAddresses int64 // of rules that were deleted
}
