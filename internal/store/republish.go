package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

const (
	// putBackMost is the number of alerts that one transaction puts back into the outbox.
	putBackMost = 10_000
	// everyRule is the rule id of a republication of all rules. No rule has that id.
	everyRule = -1
)

// published selects the published alerts of a shard: those decided after a position that are not in the outbox.
const published = ` FROM alert a` + notWaiting + `
WHERE a.shard = $1 AND (a.decided_at > $2 OR a.decided_at = $2 AND a.id > $3) AND w.id IS NULL`

// Republish publishes again the published alerts that were decided since f.After, of one rule or all, and audits that.
// It returns their number. The alerts go back into the outbox with its next read, before any newer alert of their
// shard. An unknown rule is futurejobs.ErrNotFound.
func (s *Store) Republish(ctx context.Context, f futurejobs.Filter) (n int64, err error) {
	scopes, n, err := s.republishable(ctx, f)
	if err != nil {
		return 0, wrapErr("republish", err)
	}
	if n == 0 {
		return 0, nil
	}
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		for _, c := range scopes {
			if err := demand(ctx, tx, c, f.After); err != nil {
				return err
			}
		}
		object := "alerts"
		if f.Rule != "" {
			object = "rule/" + f.Rule
		}
		return audit(ctx, tx, now, access.AlertRepublish, object, fmt.Sprintf("alerts decided since %s: %d", f.After.Format(time.RFC3339), n))
	})
	if err != nil {
		return 0, wrapErr("republish", err)
	}
	return n, nil
}

// Republishable counts the alerts that Republish would publish again.
func (s *Store) Republishable(ctx context.Context, f futurejobs.Filter) (int64, error) {
	_, n, err := s.republishable(ctx, f)
	if err != nil {
		return 0, wrapErr("count what can be republished", err)
	}
	return n, nil
}

// republishable returns the scopes with published alerts that match a filter, and the number of those alerts.
func (s *Store) republishable(ctx context.Context, f futurejobs.Filter) (some []scope, n int64, err error) {
	scopes, err := s.scopes(ctx, futurejobs.Filter{Rule: f.Rule})
	if err != nil {
		return nil, 0, err
	}
	if len(scopes) == 0 {
		return nil, 0, fmt.Errorf("rule %s: %w", f.Rule, futurejobs.ErrNotFound)
	}
	for _, c := range scopes {
		p := republication{scope: c, since: f.After}
		var of int64
		if err := s.read.QueryRowContext(ctx, s.waiting()+` SELECT count(*)`+p.published(), p.position()...).Scan(&of); err != nil {
			return nil, 0, err
		}
		if of > 0 {
			some, n = append(some, c), n+of
		}
	}
	return some, n, nil
}

// demand writes the republications of a scope. An existing one of the same shard and rule restarts if it is now
// requested from an earlier time.
func demand(ctx context.Context, tx *sql.Tx, c scope, since time.Time) error {
	rules, first := c.rules, alerts.ID{}
	if rules == nil {
		rules = []int32{everyRule}
	}
	for _, rule := range rules {
		if _, err := exec(ctx, tx, `INSERT INTO republication (shard, rule_id, since_at, after_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (shard, rule_id) DO UPDATE SET since_at = excluded.since_at, after_id = excluded.after_id
WHERE republication.since_at >= excluded.since_at`, c.shard, rule, since, first[:]); err != nil {
			return err
		}
	}
	return nil
}

// republication is a request to publish alerts of a shard again, in decision order: those decided after since, and
// those decided at since with ids after the id after. The relay reads nothing of the shard while one exists (decision
// 57).
type republication struct {
	scope
	rule  int32 // everyRule: all
	since time.Time
	after alerts.ID
}

func (p republication) published() string { return published + p.and("a") }

func (p republication) position() []any { return []any{p.shard, p.since, p.after[:]} }

// decided is an alert with the time of its decision.
type decided struct {
	id       alerts.ID
	at       time.Time
	withheld bool
}

// again returns the earlier state of the alert.
func (d decided) again() alerts.Again {
	if d.withheld {
		return alerts.WasWithheld
	}
	return alerts.WasPublished
}

// putBack puts the next alerts of the first republication of a shard, if any, back into the outbox, and ends the
// republication with its last alert. Another node may do so at the same time: one of them writes.
func (s *Store) putBack(ctx context.Context, shard int16) error {
	p := republication{scope: scope{shard: shard}}
	err := s.db.QueryRowContext(ctx, `SELECT rule_id, since_at, after_id FROM republication WHERE shard = $1 ORDER BY rule_id LIMIT 1`, shard).
		Scan(&p.rule, at(&p.since), &p.after)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.rule != everyRule {
		p.rules = []int32{p.rule}
	}
	next, err := query(ctx, s.read, func(row scanner, d *decided) error { return row.Scan(&d.id, at(&d.at), &d.withheld) },
		s.waiting()+` SELECT a.id, a.decided_at, a.withheld IS TRUE`+p.published()+` ORDER BY a.decided_at, a.id LIMIT `+strconv.Itoa(putBackMost), p.position()...)
	if err != nil {
		return err
	}
	return s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		if ok, err := p.advance(ctx, tx, next); !ok || err != nil {
			return err
		}
		for _, r := range rowsInOrder(shard, next) {
			if err := r.putBack(ctx, tx); err != nil {
				return err
			}
		}
		var withheld []alerts.ID
		for _, d := range next {
			if d.withheld {
				withheld = append(withheld, d.id)
			}
		}
		return release(ctx, tx, shard, withheld)
	})
}

// advance moves a republication past the alerts that are put back, or ends it; ok is false if it is no longer as it was
// read.
func (p republication) advance(ctx context.Context, tx *sql.Tx, next []decided) (ok bool, err error) {
	const asRead = ` WHERE shard = $1 AND since_at = $2 AND after_id = $3 AND rule_id = $4`
	var n int64
	if args := append(p.position(), p.rule); len(next) < putBackMost {
		n, err = exec(ctx, tx, `DELETE FROM republication`+asRead, args...)
	} else {
		last := next[len(next)-1]
		n, err = exec(ctx, tx, `UPDATE republication SET since_at = $5, after_id = $6`+asRead, append(args, last.at, last.id[:])...)
	}
	return n == 1, err
}

// rowsInOrder returns rows of the outbox for alerts in decision order. Rows are sent in the order of their instants, so
// a row has the instant of its first decision. The ids of a row are sorted, so a row ends if the next decision has a
// lesser id, and also between published and withheld alerts. Unpublished alerts of the same jobs were decided later and
// written later still: they follow.
func rowsInOrder(shard int16, all []decided) (rows []outboxRow) {
	for i, d := range all {
		last := len(rows) - 1
		if i == 0 || len(rows[last].ids) == rowMost || alertOrder(d.id, all[i-1].id) < 0 || d.withheld != all[i-1].withheld {
			rows = append(rows, outboxRow{shard: shard, place: alerts.OutboxKey{At: d.at, First: d.id}, again: d.again()})
			last++
		}
		rows[last].ids = append(rows[last].ids, d.id)
	}
	return rows
}

// putBack writes a row of the outbox. If a row with the same key is still there, the new row goes before it.
func (r outboxRow) putBack(ctx context.Context, tx *sql.Tx) error {
	for ; ; r.place.At = r.place.At.Add(-time.Microsecond) {
		n, err := exec(ctx, tx, `INSERT INTO alert_outbox (shard, at, first_id, ids, again) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			append(r.key(), packed(r.ids), int16(r.again))...)
		if n > 0 || err != nil {
			return err
		}
	}
}
