package store

import (
	"context"
	"database/sql"
	"time"

	"deadman/alerts"
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
func (d decided) again() alerts.Republication {
	if d.withheld {
		return alerts.WasWithheld
	}
	return alerts.WasPublished
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
