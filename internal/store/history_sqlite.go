package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
)

// numberedEnd is an ended job with its sequence number in time order.
type numberedEnd struct {
	futurejobs.EndedJob
	seq int64
}

func readNumbered(row scanner, e *numberedEnd) error {
	var reason *string
	if err := row.Scan(append(endedFields(&e.EndedJob, &reason), &e.seq)...); err != nil {
		return err
	}
	if reason != nil {
		e.Reason = *reason
	}
	return nil
}

// sqliteHistory keeps the history in one table, whose rows are numbered in time order.
type sqliteHistory struct{ *sqliteFile }

func (e *sqliteHistory) latest(ctx context.Context, rules []int32, f futurejobs.Filter) (page futurejobs.Page[futurejobs.EndedJob], err error) {
	before := position{ID: maxID}
	if err := before.read("history", f.Cursor); err != nil {
		return page, err
	}
	w := filter{`
SELECT ` + endedColumns + `, f.seq FROM history f JOIN rule r ON r.id = f.rule_id
WHERE f.seq < ?` + ofRules("f", rules), []any{before.ID}}
	if !f.After.IsZero() {
		first, err := e.firstEnd(ctx, f.After)
		if err != nil {
			return page, err
		}
		w.and(`f.seq >= ?`, first)
	}
	w.ended(f)
	found, err := query(ctx, e.read, readNumbered, rebindPlaceholders(w.text+` ORDER BY f.seq DESC LIMIT ?`), append(w.args, limit(f)+1)...)
	if err != nil {
		return page, err
	}
	numbered := paged("history", found, f, func(e numberedEnd) position { return position{ID: e.seq} })
	page.Next = numbered.Next
	for _, e := range numbered.Items {
		page.Items = append(page.Items, e.EndedJob)
	}
	return page, nil
}

// since skips the earlier rows by their number: rows are numbered in time order.
func (e *sqliteHistory) since(ctx context.Context, from time.Time) (filter, error) {
	first, err := e.firstEnd(ctx, from)
	return filter{`f.seq >= ? AND f.ended_at >= ?`, []any{first, from}}, err
}

// clockSlack is the tolerated step back of the machine's clock between two ends: rows that are out of order by no more
// are found.
const clockSlack = time.Minute

// historyEnds are the numbers before the first and after the last job. SQLite reads one end of the table for each statement with
// a single min or max; both in one statement read all of it.
const historyEnds = `SELECT coalesce((SELECT min(seq) FROM history), 1) - 1, coalesce((SELECT max(seq) FROM history), 0) + 1`

// firstEnd returns the number of the first job that ended at from or later. It is a binary search, as no index is in
// the order of ended_at.
func (e *sqliteHistory) firstEnd(ctx context.Context, from time.Time) (first int64, err error) {
	var low, high int64 // the result is after low, and not after high
	if err := e.read.QueryRowContext(ctx, historyEnds).Scan(&low, &high); err != nil {
		return 0, err
	}
	bound := from.Add(-clockSlack)
	for high-low > 1 {
		var seq int64
		var endedAt time.Time
		half := low + (high-low)/2
		err := e.read.QueryRowContext(ctx, `SELECT seq, ended_at FROM history WHERE seq <= $1 ORDER BY seq DESC LIMIT 1`, half).Scan(&seq, at(&endedAt))
		switch {
		case errors.Is(err, sql.ErrNoRows): // retention deleted them since the search began
			low = half
		case err != nil:
			return 0, err
		case endedAt.Before(bound):
			low = half
		default:
			high = seq
		}
	}
	return high, nil
}

func (e *sqliteHistory) oldest(ctx context.Context) (time.Time, error) {
	var first time.Time
	err := e.read.QueryRowContext(ctx, `SELECT min(ended_at) FROM (SELECT ended_at FROM history ORDER BY seq LIMIT 1)`).Scan(at(&first))
	if first.IsZero() {
		return first, err
	}
	return first.Add(-clockSlack).Truncate(futurejobs.Day), err
}

// createPartitions does nothing: SQLite has one table.
func (e *sqliteHistory) createPartitions(context.Context, time.Time) error { return nil }

func (e *sqliteHistory) unready(context.Context, time.Time) (time.Time, error) {
	return time.Time{}, nil
}

// dropHistoryBefore reads the oldest rows only: seq is the time order.
func (e *sqliteHistory) dropHistoryBefore(ctx context.Context, before time.Time, more func() bool) (total int64, err error) {
	for more() {
		n, err := e.forgetSome(ctx, before)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

func (e *sqliteHistory) forgetSome(ctx context.Context, before time.Time) (n int64, err error) {
	err = e.write(ctx, func(w *writer, _ time.Time) error {
		n, err = w.exec(`DELETE FROM history WHERE seq IN
	(SELECT seq FROM (SELECT seq, ended_at FROM history ORDER BY seq LIMIT $1) WHERE ended_at < $2)`, pruneBatch, before)
		if err != nil {
			return err
		}
		_, err = w.exec(countPruned, n, "history")
		return err
	})
	return n, err
}
