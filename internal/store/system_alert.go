package store

import (
	"context"
	"database/sql"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// WriteSystemAlert writes a system alert, once for any number of calls. said is false if it was written before.
func (s *Store) WriteSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, said bool, err error) {
	return s.writeSystemAlert(ctx, r, func(*sql.Tx, *alerts.SystemAlert) (bool, error) { return true, nil })
}

// ResolveSystemAlert is WriteSystemAlert for a resolved system alert, if the alert that it closes was raised.
func (s *Store) ResolveSystemAlert(ctx context.Context, r alerts.SystemAlert) (a alerts.Alert, said bool, err error) {
	return s.writeSystemAlert(ctx, r, func(tx *sql.Tx, r *alerts.SystemAlert) (was bool, err error) {
		closing := r.Alert(time.Time{})
		shard := futurejobs.ShardOf(closing.Entity, closing.Key, s.shards)
		err = tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM alert WHERE shard = $1 AND id = $2`, shard, closing.Closes[0][:]).Scan(&was)
		return was, err
	})
}

// writeSystemAlert inserts the alert if when, run in the same transaction, reports true; when fills in missing fields.
func (s *Store) writeSystemAlert(ctx context.Context, r alerts.SystemAlert, when func(*sql.Tx, *alerts.SystemAlert) (bool, error)) (a alerts.Alert, said bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) (err error) {
		r := r
		if said, err = when(tx, &r); err != nil || !said {
			return err
		}
		a = r.Alert(now)
		a.Shard = futurejobs.ShardOf(a.Entity, a.Key, s.shards)
		said, err = insertSystemAlert(ctx, tx, a)
		return err
	})
	if err != nil {
		return a, false, wrapErr("announce", err)
	}
	return a, said, nil
}

// insertAlert writes the row of an alert; fresh is false if it exists already.
func insertAlert(ctx context.Context, tx *sql.Tx, a alerts.Alert) (fresh bool, err error) {
	text, err := detail(&a, nil)
	if err != nil {
		return false, err
	}
	n, err := exec(ctx, tx, `INSERT INTO alert (shard, id, rule_id, version, status, severity, key, decided_at, since_at, check_count, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
		a.Shard, a.ID[:], a.RuleID, a.RuleVersion, a.Status.Number(), a.Severity.Number(), escape(a.Key), a.DecidedAt, a.Since, a.CheckCount, string(text))
	return n == 1, err
}

// insertSystemAlert writes an alert that belongs to no job.
func insertSystemAlert(ctx context.Context, tx *sql.Tx, a alerts.Alert) (said bool, err error) {
	if said, err = insertAlert(ctx, tx, a); err != nil || !said {
		return false, err
	}
	if _, err := exec(ctx, tx, postOne, a.Shard, a.ID[:], a.ID[:]); err != nil {
		return false, err
	}
	_, err = exec(ctx, tx, `INSERT INTO alert_news (shard, id) SELECT shard, id FROM alert WHERE shard = $1 AND id = $2 AND `+notifying,
		a.Shard, a.ID[:])
	return err == nil, err
}
