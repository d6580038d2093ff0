package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// pruneBatch is the largest number of rows that one transaction of retention deletes.
const pruneBatch = 2000

// countPruned adds deleted rows to their count, which Balance needs.
const countPruned = `UPDATE pruned SET rows = rows + $1 WHERE name = $2`

// Retention is the time that data is kept after its use. Zero keeps it forever.
type Retention struct {
	History     time.Duration
	Alerts      time.Duration
	DeadLetters time.Duration
	Audit       time.Duration
	Pings       time.Duration // of the log, which keeps only the last ones of each key
}

// Pruned has the numbers of rows that retention deleted.
type Pruned struct {
	History     int64
	Alerts      int64
	DeadLetters int64
	Audit       int64
	Pings       int64

	PingAddresses int64 // of rules that were deleted
}

// Prune deletes rows beyond their retention, in bounded transactions, and creates the history tables of the next days.
// On Postgres, history is deleted by whole days, so it stays up to a day longer. An unpublished alert stays. Prune may
// run on several nodes at once.
func (s *Store) Prune(ctx context.Context, r Retention) (Pruned, error) {
	var p Pruned
	now, err := s.Time(ctx)
	if err != nil {
		return p, wrapErr("prune", err)
	}
	errs := []error{
		s.createPartitions(ctx, now), s.forgetNodes(ctx, now), s.forgetEarly(ctx, now), s.forgetRequests(ctx, now), s.forgetBeginnings(ctx),
		s.forgetLoads(ctx, now), s.forgetAcks(ctx), s.forgetSessions(ctx, now),
	}
	if r.History != 0 {
		p.History, err = s.dropHistoryBefore(ctx, now.Add(-r.History))
		errs = append(errs, err, s.forgetOutages(ctx, now.Add(-r.History)))
	}
	if r.Alerts != 0 {
		p.Alerts, err = s.pruneAlerts(ctx, now.Add(-r.Alerts))
		errs = append(errs, err, s.forgetNotices(ctx, now.Add(-r.Alerts)))
	}
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

// HistoryUnready returns the first day after today without a history table, and the database's time. The zero day means
// that all have one.
func (s *Store) HistoryUnready(ctx context.Context) (day, now time.Time, err error) {
	now, err = s.Now(ctx)
	if err == nil {
		day, err = s.unready(ctx, now)
	}
	if err != nil {
		return day, now, wrapErr("history ahead", err)
	}
	return day, now, nil
}

// forgetNodes deletes nodes that died more than a day ago.
func (s *Store) forgetNodes(ctx context.Context, now time.Time) error {
	_, err := exec(ctx, s.db, `DELETE FROM node WHERE expires_at < $1`, now.Add(-futurejobs.Day))
	return err
}

// forgetEarly deletes early events that expired unused.
func (s *Store) forgetEarly(ctx context.Context, now time.Time) error {
	for shard := range s.shards {
		if _, err := s.pruneAll(ctx, "", `DELETE FROM early WHERE shard = $1 AND until_at <= $2 AND (rule_id, key) IN
	(SELECT e.rule_id, e.key FROM early e WHERE e.shard = $1 AND e.until_at <= $2 ORDER BY e.until_at LIMIT $3)`,
			shard, now, pruneBatch); err != nil {
			return err
		}
	}
	return nil
}

// forgetRequests deletes requests beyond their retention.
func (s *Store) forgetRequests(ctx context.Context, now time.Time) error {
	_, err := s.pruneAll(ctx, "", `DELETE FROM idempotency WHERE key IN
	(SELECT i.key FROM idempotency i WHERE i.at < $1 ORDER BY i.at LIMIT $2)`, now.Add(-remembered), pruneBatch)
	return err
}

func (s *Store) pruneAlerts(ctx context.Context, before time.Time) (total int64, err error) {
	bound := firstAlert(before)
	for shard := range s.shards {
		n, err := s.pruneAll(ctx, "alert", s.waiting()+`
DELETE FROM alert WHERE shard = $1 AND id IN
	(SELECT a.id FROM alert a`+notWaiting+` WHERE a.shard = $1 AND a.id < $2 AND w.id IS NULL ORDER BY a.id LIMIT $3)`,
			shard, bound[:], pruneBatch)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// firstAlert returns an id below those of all alerts raised at t or later.
func firstAlert(t time.Time) (id alerts.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(t.UnixMilli())<<16)
	return id
}

// pruneAll deletes in batches until no row is left. If name is set, it adds the rows to that count in pruned.
func (s *Store) pruneAll(ctx context.Context, name, text string, args ...any) (total int64, err error) {
	for {
		var n int64
		err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) (err error) {
			if n, err = exec(ctx, tx, text, args...); err != nil || n == 0 {
				return err
			}
			if name != "" {
				_, err = exec(ctx, tx, countPruned, n, name)
			}
			return err
		})
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}
