package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"

	"deadman/alerts"
)

// rowMost is how many alerts a row of the outbox names at most. Such a row is just under 2 kB: a
// longer one Postgres would compress, or keep beside itself in pieces of that size.
const rowMost = 120

// rowBytes is the length of their ids.
var rowBytes = strconv.Itoa(rowMost * len(alerts.ID{}))

const (
	// What is said later has a later clock, and not only a later beginning of its transaction: one
	// that waits for a lock began before what it waits for.
	postOne = `INSERT INTO alert_outbox (shard, at, first_id, ids) VALUES ($1, clock_timestamp(), $2, $3)`

	theRow  = ` WHERE shard = $1 AND at = $2 AND first_id = $3`
	findRow = `SELECT ids FROM alert_outbox` + theRow
	// A row is cut or dropped if it is as it was read.
	dropRow = `DELETE FROM alert_outbox` + theRow + ` AND ids = $4`
	cutRow  = `UPDATE alert_outbox SET ids = $5` + theRow + ` AND ids = $4`
)

// outboxRow is a row of the outbox, and alerts in it, sorted.
type outboxRow struct {
	shard int16
	place alerts.OutboxKey
	ids   []alerts.ID
	again alerts.Again // of all of them
}

func (r outboxRow) key() []any { return []any{r.shard, r.place.At, r.place.First[:]} }

// write is how the alerts of r are taken out of a row that has ids; empty if none is there.
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

// less is what stays of ids when those of r are taken out.
func (r outboxRow) less(ids []alerts.ID) []alerts.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id alerts.ID) bool {
		_, sent := slices.BinarySearchFunc(r.ids, id, alertOrder)
		return sent
	})
}

// rowsOf are the rows of the outbox that alerts were read from, in the order of their key.
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

// numbers are the places of a row of the outbox, and begin a statement that reads what waits.
var numbers = `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ` + strconv.Itoa(rowMost-1) + `)`

// outbox is the queue of what is not published, in a statement that begins with numbers.
func (s *Store) outbox() alertQueue {
	return alertQueue{
		rows: `(SELECT o.shard, o.at, o.first_id, o.again, n.i, ` + s.idOf(`substr(o.ids, 16 * n.i + 1, 16)`) + ` AS id
	FROM alert_outbox o JOIN n ON n.i < length(o.ids) / 16)`,
		columns: `shard, id, at, first_id, again, i`,
		order:   `at, first_id, i`,
		first:   `shard, after_id AS id, since_at AS at, after_id AS first_id, 0 AS again, -1 AS i FROM republication`,
	}
}

// unpublished is whether an alert a is still in the outbox, and whether it is withheld. It reads all that waits in its shard,
// at a gigabyte or two a second: it is for pages, and waiting for many.
func (s *Store) unpublished() string {
	return `EXISTS (SELECT 1 FROM alert_outbox o WHERE o.shard = a.shard AND ` + s.holds(`o.ids`, `a.id`) + `), a.withheld IS TRUE`
}

// waiting begins a statement that asks what of the alerts of the shard $1 waits.
func (s *Store) waiting() string {
	return numbers + `, waiting AS MATERIALIZED (SELECT q.id FROM ` + s.outbox().rows + ` AS q WHERE q.shard = $1)`
}

// notWaiting joins w, which is NULL where the alert a does not wait.
const notWaiting = ` LEFT JOIN waiting w ON w.id = a.id`

// Unpublished implements alerts.Outbox. What is to be published again of a shard goes into the outbox before anything of
// the shard is returned. An alert that is no longer there, because retention took it while it was put back into the
// outbox, is taken out, and so is one that is withheld.
func (s *Store) Unpublished(ctx context.Context, shards []int16, limit int, without []string) ([]alerts.Alert, error) {
	if len(shards) == 0 {
		return nil, nil
	}
	except, args := notOfRules(without)
	text := numbers + ` SELECT o.i, o.at, o.first_id, o.again, a.withheld IS TRUE, o.shard, o.id, coalesce(a.rule_id, 0), coalesce(a.version, 0),
	coalesce(a.status, 0), coalesce(a.severity, 0), coalesce(a.key, ''), a.decided_at, a.since_at, coalesce(a.check_count, 0),
	coalesce(a.detail, ''), coalesce(r.name, ''), coalesce(r.entity, '')
FROM (` + s.outbox().next(shards, limit, except) + `) AS o
LEFT JOIN alert a ON a.shard = o.shard AND a.id = o.id
LEFT JOIN rule r ON r.id = a.rule_id
ORDER BY o.shard, o.at, o.first_id, o.i`
	for {
		rows, err := query(ctx, s.read, readWaiting, text, args...)
		if err != nil {
			return nil, wrapErr("unpublished", err)
		}
		found, gone, held := sorted(rows)
		if len(gone) == 0 && len(held) == 0 {
			return found, nil
		}
		for _, shard := range held {
			if err := s.putBack(ctx, shard); err != nil {
				return nil, wrapErr("unpublished", err)
			}
		}
		if len(gone) > 0 {
			if err := s.MarkPublished(ctx, gone); err != nil {
				return nil, err
			}
		}
	}
}

// waitingRow is an alert with its place in the outbox. It is of no rule if it is not there. held means that there is no
// alert: its shard has a republication. withheld means that a quota has no room for it, and that it was not taken out yet.
type waitingRow struct {
	alerts.Alert
	held, withheld bool
}

func readWaiting(row scanner, w *waitingRow) error {
	r := alertRow{Alert: &w.Alert}
	var i int
	if err := row.Scan(append([]any{&i, at(&w.Place.At), &w.Place.First, &w.Again, &w.withheld}, r.fields()...)...); err != nil {
		return err
	}
	if w.held = i < 0; w.held || w.Rule == "" {
		return nil
	}
	return r.read()
}

// sorted returns the alerts that wait, those that are gone, and the shards that are held.
func sorted(rows []waitingRow) (found, gone []alerts.Alert, held []int16) {
	found = make([]alerts.Alert, 0, len(rows))
	for _, w := range rows {
		switch {
		case w.held:
			held = append(held, w.Shard)
		case w.Rule == "", w.withheld:
			gone = append(gone, w.Alert)
		default:
			found = append(found, w.Alert)
		}
	}
	return found, gone, slices.Compact(held)
}
