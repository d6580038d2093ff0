package store

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// rowMost is the largest number of alerts in a row of the outbox. Such a row is just under 2 kB: Postgres would
// compress a longer one, or store it out of line in pieces of that size.
const rowMost = 120

// rowBytes is the length of their ids in bytes.
var rowBytes = strconv.Itoa(rowMost * len(alerts.ID{}))

const (
	// A later alert has a later clock_timestamp, and not only a later start of its transaction: a transaction that
	// waited for a lock may write after one that began later.
	postOne = `INSERT INTO alert_outbox (shard, at, first_id, ids) VALUES ($1, clock_timestamp(), $2, $3)`

	theRow  = ` WHERE shard = $1 AND at = $2 AND first_id = $3`
	findRow = `SELECT ids FROM alert_outbox` + theRow
	// A row is cut or deleted only if it is as it was read.
	dropRow = `DELETE FROM alert_outbox` + theRow + ` AND ids = $4`
	cutRow  = `UPDATE alert_outbox SET ids = $5` + theRow + ` AND ids = $4`
)

// outboxRow is a row of the outbox, with some of its alerts, sorted.
type outboxRow struct {
	shard int16
	place alerts.OutboxKey
	ids   []alerts.ID
	again alerts.Republication // for all of the alerts
}

func (r outboxRow) key() []any { return []any{r.shard, r.place.At, r.place.First[:]} }

// write returns the statement that removes the alerts of r from a row that has ids; empty if none is in it.
func (r outboxRow) write(ids []alerts.ID) (text string, args []any) {
	left := r.less(ids)
	switch args = append(r.key(), packed(ids)); len(left) {
	case 0:
		return dropRow, args
	case len(ids):
		return "", nil
	default:
		return cutRow, append(args, packed(left))
	}
}

// less returns ids without those of r.
func (r outboxRow) less(ids []alerts.ID) []alerts.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id alerts.ID) bool {
		_, sent := slices.BinarySearchFunc(r.ids, id, alertOrder)
		return sent
	})
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

// rowsOf returns the rows of the outbox that alerts were read from, in key order.
func rowsOf(sent []alerts.Alert) (rows []outboxRow) {
	type key struct {
		shard int16
		at    int64 // µs
		first alerts.ID
	}
	index := make(map[key]int)
	for _, a := range sent {
		k := key{a.Shard, a.Place.At.UnixMicro(), a.Place.First}
		i, known := index[k]
		if !known {
			i, index[k] = len(rows), len(rows)
			rows = append(rows, outboxRow{shard: a.Shard, place: a.Place})
		}
		rows[i].ids = append(rows[i].ids, a.ID)
	}
	for _, r := range rows {
		slices.SortFunc(r.ids, alertOrder)
	}
	slices.SortFunc(rows, func(a, b outboxRow) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), a.place.At.Compare(b.place.At), alertOrder(a.place.First, b.place.First))
	})
	return rows
}

func alertOrder(a, b alerts.ID) int { return bytes.Compare(a[:], b[:]) }

// numbers begins a statement that reads the outbox, with the positions in a row.
var numbers = `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ` + strconv.Itoa(rowMost-1) + `)`

// notWaiting joins w, which is NULL if the alert a is not in the outbox.
const notWaiting = ` LEFT JOIN waiting w ON w.id = a.id`

// OutboxStore keeps the alerts that are to be published.
type OutboxStore struct{ *database }

// Unpublished implements alerts.Outbox. Alerts of a shard to be republished go into the outbox before any alert of the
// shard is returned. An alert that retention deleted while it was put back into the outbox is removed, and so is a
// withheld one.
func (s *OutboxStore) Unpublished(ctx context.Context, shards []int16, limit int, without []string) (found []alerts.Alert, more bool, err error) {
	if len(shards) == 0 {
		return nil, false, nil
	}
	except, args := notOfRules(without)
	text := numbers + ` SELECT o.i, o.at, o.first_id, o.again, a.withheld IS TRUE, o.shard, o.id, coalesce(a.rule_id, 0), coalesce(a.version, 0),
	coalesce(a.status, 0), coalesce(a.severity, 0), coalesce(a.key, ''), a.decided_at, a.since_at, coalesce(a.check_count, 0),
	coalesce(a.detail, ''), coalesce(r.name, ''), coalesce(r.entity, ''), o.through
FROM (` + s.outbox().next(shards, limit, except) + `) AS o
LEFT JOIN alert a ON a.shard = o.shard AND a.id = o.id
LEFT JOIN rule r ON r.id = a.rule_id
ORDER BY o.shard, o.at, o.first_id, o.i`
	for {
		rows, err := query(ctx, s.read, readWaiting, text, args...)
		if err != nil {
			return nil, false, wrapErr("unpublished", err)
		}
		found, gone, held, through := sorted(rows)
		if len(gone) == 0 && len(held) == 0 {
			return found, isFull(len(found), limit, through), nil
		}
		for _, shard := range held {
			if err := s.putBack(ctx, shard); err != nil {
				return nil, false, wrapErr("unpublished", err)
			}
		}
		if len(gone) > 0 {
			if err := s.MarkPublished(ctx, gone); err != nil {
				return nil, false, err
			}
		}
	}
}

// waitingRow is an alert with its position in the outbox. A deleted alert has no rule. held marks a shard with a
// republication, in place of an alert. withheld means that a quota refused the alert, and that it is still in the
// outbox.
type waitingRow struct {
	alerts.Alert
	held, withheld bool
	through        int64 // the bytes that were read up to it
}

func readWaiting(row scanner, w *waitingRow) error {
	r := alertRow{Alert: &w.Alert}
	var i int
	if err := row.Scan(append([]any{&i, at(&w.Place.At), &w.Place.First, &w.Republication, &w.withheld}, append(r.fields(), &w.through)...)...); err != nil {
		return err
	}
	if w.held = i < 0; w.held || w.Rule == "" {
		return nil
	}
	return r.read()
}

// sorted returns the unpublished alerts, those to remove from the outbox, the shards with republications, and the bytes
// that were read.
func sorted(rows []waitingRow) (found, gone []alerts.Alert, held []int16, through int64) {
	found = make([]alerts.Alert, 0, len(rows))
	for _, w := range rows {
		through = max(through, w.through)
		switch {
		case w.held:
			held = append(held, w.Shard)
		case w.Rule == "", w.withheld:
			gone = append(gone, w.Alert)
		default:
			found = append(found, w.Alert)
		}
	}
	return found, gone, slices.Compact(held), through
}

// Republish publishes again the published alerts that were decided since f.After, of one rule or all, and audits that.
// It returns their number. The alerts go back into the outbox with its next read, before any newer alert of their
// shard. An unknown rule is futurejobs.ErrNotFound.
func (s *OutboxStore) Republish(ctx context.Context, f futurejobs.Filter) (n int64, err error) {
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
func (s *OutboxStore) Republishable(ctx context.Context, f futurejobs.Filter) (int64, error) {
	_, n, err := s.republishable(ctx, f)
	if err != nil {
		return 0, wrapErr("count what can be republished", err)
	}
	return n, nil
}

// republishable returns the scopes with published alerts that match a filter, and the number of those alerts.
func (s *OutboxStore) republishable(ctx context.Context, f futurejobs.Filter) (some []scope, n int64, err error) {
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

// putBack puts the next alerts of the first republication of a shard, if any, back into the outbox, and ends the
// republication with its last alert. Another node may do so at the same time: one of them writes.
func (s *OutboxStore) putBack(ctx context.Context, shard int16) error {
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
