package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

const outageColumns = `source, rule_id, version, opened_at, seen_at, jobs, reason`

func readOutage(row scanner, o *futurejobs.Outage) error {
	return row.Scan((*escapedText)(&o.Source), &o.RuleID, &o.Version, at(&o.OpenedAt), at(&o.SeenAt), &o.Jobs, (*escapedText)(&o.Reason))
}

// OutageStore keeps the outages of rules.
type OutageStore struct{ *database }

// Outages implements futurejobs.OutageStore.
func (s *OutageStore) Outages(ctx context.Context) ([]futurejobs.Outage, error) {
	open, err := query(ctx, s.read, readOutage, `SELECT `+outageColumns+` FROM outage WHERE closed_at IS NULL ORDER BY id`)
	if err != nil {
		return nil, wrapErr("outages", err)
	}
	return open, nil
}

// ListedOutages returns outages, newest first, including closed ones until they are pruned.
func (s *OutageStore) ListedOutages(ctx context.Context, f futurejobs.Filter) (futurejobs.Page[futurejobs.ListedOutage], error) {
	var page futurejobs.Page[futurejobs.ListedOutage]
	before := position{ID: maxID}
	if err := before.read("outage", f.Cursor); err != nil {
		return page, err
	}
	w := filter{`SELECT o.id, coalesce(r.name, ''), o.closed_at, o.source, o.rule_id, o.version, o.opened_at, o.seen_at, o.jobs, o.reason
FROM outage o LEFT JOIN rule r ON r.id = o.rule_id WHERE o.id < ?`, []any{before.ID}}
	w.named(`r.name`, f)
	if f.Open {
		w.and(`o.closed_at IS NULL`)
	}
	all, err := query(ctx, s.read, func(row scanner, o *futurejobs.ListedOutage) error {
		return row.Scan(&o.ID, (*escapedText)(&o.Rule), at(&o.ClosedAt), (*escapedText)(&o.Source), &o.RuleID, &o.Version,
			at(&o.OpenedAt), at(&o.SeenAt), &o.Jobs, (*escapedText)(&o.Reason))
	}, rebindPlaceholders(w.text+` ORDER BY o.id DESC LIMIT ?`), append(w.args, limit(f)+1)...)
	if err != nil {
		return page, wrapErr("outages", err)
	}
	return paged("outage", all, f, func(o futurejobs.ListedOutage) position { return position{ID: o.ID} }), nil
}

// RecordOutage implements futurejobs.OutageStore.
func (s *OutageStore) RecordOutage(ctx context.Context, m futurejobs.OutageHit) (raised []alerts.Alert, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		raised = nil
		if err := s.checkRuleAndLease(ctx, tx, m.Outage.RuleID, m.RuleSet, m.Held, now); err != nil {
			return err
		}
		o := m.Outage
		o.OpenedAt, o.SeenAt = now, now
		n, err := exec(ctx, tx, `UPDATE outage SET seen_at = CASE WHEN seen_at > $1 THEN seen_at ELSE $1 END, jobs = jobs + $2 WHERE source = $3 AND rule_id = $4 AND closed_at IS NULL`,
			now, o.Jobs, escapedText(o.Source), o.RuleID)
		if err != nil || n > 0 {
			return err
		}
		n, err = exec(ctx, tx, `INSERT INTO outage (`+outageColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			escapedText(o.Source), o.RuleID, o.Version, now, now, o.Jobs, escapedText(o.Reason))
		if err != nil {
			return err
		}
		if n == 0 {
			return errAgain // another node has just opened it
		}
		if o.Jobs, o.More, err = dueOf(ctx, tx, o.RuleID, now); err != nil {
			return err
		}
		o.Jobs = max(o.Jobs, m.Outage.Jobs+m.Repeated)
		raised, err = s.writeOutageAlert(ctx, tx, m.Alert(o))
		return err
	})
	if errors.Is(err, errAgain) {
		return s.RecordOutage(ctx, m)
	}
	if err != nil {
		return nil, wrapErr("record outage", err)
	}
	return raised, nil
}

// errAgain means that a transaction found its row written by another node. A retry reads it.
var errAgain = errors.New("written by another node meanwhile")

// dueMost bounds the due jobs, of all rules, that are read to count those of one: settles wait while an outage is
// opened.
const dueMost = 20_000

// dueOf counts the due jobs of a rule. It reads the due jobs of each shard and no others. more is true if it did not
// read all.
func dueOf(ctx context.Context, tx *sql.Tx, ruleID int32, now time.Time) (n int, more bool, err error) {
	read := 0
	err = tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(CASE WHEN rule_id = $1 THEN 1 ELSE 0 END), 0) FROM (
	SELECT f.rule_id FROM shard_lease l CROSS JOIN future_job f
	WHERE f.shard = l.shard AND f.next_check_at <= $2 LIMIT $3
) AS due`, ruleID, now, dueMost).Scan(&read, &n)
	return n, read == dueMost, err
}

// CloseOutage implements futurejobs.OutageStore.
func (s *OutageStore) CloseOutage(ctx context.Context, o futurejobs.Outage, alertOf func(futurejobs.Outage) alerts.Alert) (raised []alerts.Alert, ended bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		raised, ended = nil, false
		// No alert of a rule follows its deletion, which waits for this transaction or is seen by it. RecordOutage also
		// locks the rule before the outage.
		locked, err := exec(ctx, tx, `UPDATE rule SET gate_until = gate_until WHERE id = $1 AND deleted_at IS NULL`, o.RuleID)
		if err != nil {
			return err
		}
		n, err := exec(ctx, tx, `UPDATE outage SET closed_at = $1 WHERE source = $2 AND rule_id = $3 AND opened_at = $4 AND closed_at IS NULL`,
			now, escapedText(o.Source), o.RuleID, o.OpenedAt)
		if err != nil || n == 0 {
			return err
		}
		ended = true
		if err := tx.QueryRowContext(ctx, `SELECT jobs FROM outage WHERE source = $1 AND rule_id = $2 AND opened_at = $3`,
			escapedText(o.Source), o.RuleID, o.OpenedAt).Scan(&o.Jobs); err != nil {
			return err
		}
		if locked == 0 {
			return nil
		}
		raised, err = s.writeOutageAlert(ctx, tx, alertOf(o))
		return err
	})
	if err != nil {
		return nil, false, wrapErr("close outage", err)
	}
	return raised, ended, nil
}

// writeOutageAlert writes an alert that belongs to no job, in the shard of its entity and key.
func (s *OutageStore) writeOutageAlert(ctx context.Context, tx *sql.Tx, a alerts.Alert) ([]alerts.Alert, error) {
	a.Shard = futurejobs.ShardOf(a.Entity, a.Key, s.shards)
	raised, err := insertSystemAlert(ctx, tx, a)
	if err != nil || !raised {
		return nil, err
	}
	return []alerts.Alert{a}, nil
}

// forgetOutages deletes the outages that closed before an instant.
func (s *OutageStore) forgetOutages(ctx context.Context, before time.Time) error {
	_, err := exec(ctx, s.db, `DELETE FROM outage WHERE closed_at < $1`, before)
	return err
}
