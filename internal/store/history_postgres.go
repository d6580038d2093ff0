package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	futurejobs "deadman/future_jobs"
)

// postgresHistory keeps the history in a table for each day.
type postgresHistory struct {
	*postgresPool
	lent       atomic.Bool               // the tables belong to another user, who provides functions to change them
	dropFailed atomic.Pointer[time.Time] // the time of the last failure to drop a locked day; nil: never
}

// latest reads back in windows that double, so a page reads few of the days: history has no index in time order, but
// its partitions are.
func (p *postgresHistory) latest(ctx context.Context, rules []int32, f futurejobs.Filter) (page futurejobs.Page[futurejobs.EndedJob], err error) {
	before := position{At: forever, Shard: math.MaxInt16, ID: maxID}
	if err := before.read("history", f.Cursor); err != nil {
		return page, err
	}
	newest, oldest, err := p.span(ctx)
	if err != nil {
		return page, err
	}
	if f.After.After(oldest) {
		oldest = f.After
	}
	to := newest
	for _, bound := range []time.Time{before.At.Add(time.Microsecond), f.Before} {
		if !bound.IsZero() && bound.Before(to) {
			to = bound
		}
	}
	var ended []futurejobs.EndedJob
	for window := futurejobs.Day; len(ended) <= limit(f) && to.After(oldest); window *= 2 {
		from := to.Truncate(futurejobs.Day).Add(futurejobs.Day - window)
		w := filter{
			`SELECT ` + endedColumns + ` FROM history f JOIN rule r ON r.id = f.rule_id
WHERE f.ended_at >= ? AND f.ended_at < ? AND (f.ended_at, f.shard, f.id) < (?, ?, ?)` + ofRules("f", rules),
			[]any{from, to, before.At, before.Shard, before.ID},
		}
		w.ended(f)
		rows, err := p.pool.Query(ctx, rebindPlaceholders(w.text+` ORDER BY f.ended_at DESC, f.shard DESC, f.id DESC LIMIT ?`),
			append(w.args, limit(f)+1-len(ended))...)
		if err != nil {
			return page, err
		}
		found, err := all(rows, readEnded)
		rows.Close()
		if err != nil {
			return page, err
		}
		ended = append(ended, found...)
		to = from
	}
	return paged("history", ended, f, func(e futurejobs.EndedJob) position {
		return position{At: e.EndedAt, Shard: e.Shard, ID: e.ID}
	}), nil
}

// span returns the bounds of the history, to the day.
func (p *postgresHistory) span(ctx context.Context) (newest, oldest time.Time, err error) {
	days, err := p.days(ctx)
	if err != nil {
		return newest, oldest, err
	}
	var now, stray time.Time // stray: the oldest row of the default partition
	if err := p.pool.QueryRow(ctx, `SELECT now(), (SELECT min(ended_at) FROM history_default)`).Scan(at(&now), at(&stray)); err != nil {
		return newest, oldest, err
	}
	newest, oldest = now.Add(futurejobs.Day), now
	if !stray.IsZero() {
		days = append(days, stray.Truncate(futurejobs.Day))
	}
	for _, d := range days {
		if d.Before(oldest) {
			oldest = d
		}
	}
	return newest, oldest, nil
}

func (p *postgresHistory) oldest(ctx context.Context) (time.Time, error) {
	_, oldest, err := p.span(ctx)
	return oldest.UTC().Truncate(futurejobs.Day), err
}

// dayTable is the name of the table of a day's history, as a time layout.
const dayTable = "history_20060102"

// days returns the days that have a table of their own, in order.
func (p *postgresHistory) days(ctx context.Context) ([]time.Time, error) {
	rows, err := p.pool.Query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'history'::regclass AND c.relname <> 'history_default'`)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	days := make([]time.Time, len(names))
	for i, name := range names {
		if days[i], err = time.Parse(dayTable, name); err != nil {
			return nil, fmt.Errorf("the table %s of history is none of ours: %w", name, err)
		}
	}
	slices.SortFunc(days, time.Time.Compare)
	return days, nil
}

// daysAhead is the number of days after today that have their table ready. A table cannot be created while one long
// transaction, such as a backup, reads the history, so a week of tables is created ahead.
const daysAhead = 7

// Lock timeouts of a change to the tables of history. Later requests for the table queue behind a waiting lock request.
const (
	// The lock of the default table, behind it only reads of the whole history wait.
	makeDayWait = 50 * time.Millisecond
	// The lock of history, behind it each settlement waits.
	dropDayWait = 200 * time.Millisecond
)

// dropDayAgain is the pause after a day could not be dropped.
const dropDayAgain = 10 * time.Minute

// impatiently returns options for transactions with a lock timeout of wait.
func impatiently(wait time.Duration) pgx.TxOptions {
	return pgx.TxOptions{BeginQuery: fmt.Sprintf(`BEGIN; SET LOCAL lock_timeout = '%dms'; SET LOCAL statement_timeout = '%dms'`,
		wait.Milliseconds(), dbTimeout.Milliseconds())}
}

// isLocked reports whether a transaction gave up on a lock.
func isLocked(err error) bool { return isCode(err, lockTimeout) }

// createPartitions creates the tables of the next days. A table that cannot be created while the history is read is
// tried again at the next call; unready returns the missing ones.
func (p *postgresHistory) createPartitions(ctx context.Context, now time.Time) error {
	missing, err := p.missingDays(ctx, now)
	if err != nil {
		return wrapErr("history ahead", err)
	}
	for _, day := range missing {
		err := p.makeDay(ctx, day)
		if isLocked(err) {
			return nil
		}
		if err != nil {
			return wrapErr("history ahead", err)
		}
	}
	return nil
}

// missingDays returns the days from today on that still need a table, in order.
func (p *postgresHistory) missingDays(ctx context.Context, now time.Time) (missing []time.Time, err error) {
	have, err := p.days(ctx)
	if err != nil {
		return nil, err
	}
	today := now.Truncate(futurejobs.Day)
	for i := range daysAhead + 1 {
		if day := today.AddDate(0, 0, i); !slices.ContainsFunc(have, day.Equal) {
			missing = append(missing, day)
		}
	}
	return missing, nil
}

// unready returns the first day after today that has no table; zero: none.
func (p *postgresHistory) unready(ctx context.Context, now time.Time) (time.Time, error) {
	missing, err := p.missingDays(ctx, now)
	for _, day := range missing {
		if day.After(now) {
			return day, nil
		}
	}
	return time.Time{}, err
}

const (
	notAllowed = "42501" // the user lacks the privilege
	noFunction = "42883"
)

// changeDays changes the tables of days in a transaction. If the database user does not own the tables, their owner may
// provide functions that do it: deploy/postgres-roles.sql. lent means that do must use them.
func (p *postgresHistory) changeDays(ctx context.Context, wait time.Duration, do func(tx pgx.Tx, lent bool) error) error {
	lent := p.lent.Load()
	err := pgx.BeginTxFunc(ctx, p.pool, impatiently(wait), func(tx pgx.Tx) error { return do(tx, lent) })
	switch {
	case !lent && isCode(err, notAllowed):
		p.lent.Store(true)
		return p.changeDays(ctx, wait, do)
	case lent && isCode(err, notAllowed, noFunction):
		p.lent.Store(false) // the user may own them the next time
		return fmt.Errorf("the user of the database does not own the tables of history, and may not call deadman_make_day and deadman_drop_day in place of that; "+
			"the owner makes these with deploy/postgres-roles.sql: %w", err)
	}
	return err
}

// makeDay creates the table of a day. A day with rows in the default partition stays there. The table is attached, not
// created as a partition: attaching takes the exclusive lock of the default table, which a settlement takes only for a
// day without a table, and not that of history.
func (p *postgresHistory) makeDay(ctx context.Context, day time.Time) error {
	const bound = "2006-01-02 00:00:00+00"
	err := p.changeDays(ctx, makeDayWait, func(tx pgx.Tx, lent bool) error {
		if lent {
			_, err := tx.Exec(ctx, `SELECT deadman_make_day($1)`, day)
			return err
		}
		table := day.Format(dayTable)
		if _, err := tx.Exec(ctx, `CREATE TABLE `+table+` (LIKE history INCLUDING ALL EXCLUDING INDEXES)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, fmt.Sprintf(`ALTER TABLE history ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`,
			table, day.Format(bound), day.AddDate(0, 0, 1).Format(bound)))
		return err
	})
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "23514": // the default holds rows of that day
			return nil
		case "42P07", "42710", "23505", "42P17": // another node was faster: the table, its row type, its catalog row, its days exist
			return nil
		}
	}
	return err
}

func (p *postgresHistory) dropHistoryBefore(ctx context.Context, before time.Time, more func() bool) (total int64, err error) {
	days, err := p.days(ctx)
	if err != nil {
		return 0, err
	}
	last := before.Truncate(futurejobs.Day)
	for _, day := range days {
		if !day.Before(last) || p.isResting() || !more() {
			break
		}
		n, err := p.dropDay(ctx, day)
		total += n
		if isLocked(err) { // longer retention is harmless
			failedAt := time.Now()
			p.dropFailed.Store(&failedAt)
			break
		}
		if err != nil {
			return total, err
		}
	}
	for more() {
		n, err := p.forgetStray(ctx, last)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

// isResting reports whether a drop of a day failed recently.
func (p *postgresHistory) isResting() bool {
	failed := p.dropFailed.Load()
	return failed != nil && time.Since(*failed) < dropDayAgain
}

// dropDay drops a day and counts its rows, in one transaction. It begins with the lock of the count, so that no other one deletes
// some of them meanwhile and counts them, too: it counted them before, or the drop of the table waits for it in vain.
func (p *postgresHistory) dropDay(ctx context.Context, day time.Time) (n int64, err error) {
	table := day.Format(dayTable)
	err = p.changeDays(ctx, dropDayWait, func(tx pgx.Tx, lent bool) error {
		if _, err := tx.Exec(ctx, countPruned, 0, "history"); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, countPruned, n, "history"); err != nil {
			return err
		}
		if lent {
			_, err := tx.Exec(ctx, `SELECT deadman_drop_day($1)`, day)
			return err
		}
		_, err := tx.Exec(ctx, `DROP TABLE `+table)
		return err
	})
	if isCode(err, "42P01") { // another node was faster
		return 0, nil
	}
	return n, err
}

// forgetStray deletes rows of the default partition.
func (p *postgresHistory) forgetStray(ctx context.Context, before time.Time) (n int64, err error) {
	err = pgx.BeginTxFunc(ctx, p.pool, begin, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM history WHERE (shard, key, rule_id, id, ended_at) IN
	(SELECT shard, key, rule_id, id, ended_at FROM history WHERE ended_at < $1 LIMIT $2)`, before, pruneBatch)
		if err != nil {
			return err
		}
		n = tag.RowsAffected()
		_, err = tx.Exec(ctx, countPruned, n, "history")
		return err
	})
	return n, err
}

// since lets the planner skip the earlier days.
func (p *postgresHistory) since(_ context.Context, from time.Time) (filter, error) { //nolint:unparam // SQLite reads the first day
	return filter{`f.ended_at >= ?`, []any{from}}, nil
}
