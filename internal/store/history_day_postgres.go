package store

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	futurejobs "deadman/future_jobs"
)

// postgresRetention deletes and counts parts of the history.
type postgresRetention struct{ *postgresHistory }

func (p *postgresRetention) endedBefore(_ context.Context, before time.Time) (filter, error) { //nolint:unparam // SQLite reads the first row
	return filter{`f.ended_at < ?`, []any{before.UTC().Truncate(futurejobs.Day)}}, nil
}

func (p *postgresRetention) endedOn(_ context.Context, day time.Time) (filter, error) { //nolint:unparam // likewise
	return filter{`f.ended_at >= ? AND f.ended_at < ?`, []any{day, day.Add(futurejobs.Day)}}, nil
}

// historyDays returns the days with a table, and the days of the default partition.
func (p *postgresRetention) historyDays(ctx context.Context, now time.Time) ([]time.Time, error) {
	days, err := p.days(ctx)
	if err != nil {
		return nil, err
	}
	var first, last time.Time
	if err := p.pool.QueryRow(ctx, `SELECT min(ended_at), max(ended_at) FROM history_default`).Scan(at(&first), at(&last)); err != nil {
		return nil, err
	}
	if !first.IsZero() {
		days = append(days, daysFrom(first, last)...)
	}
	slices.SortFunc(days, time.Time.Compare)
	return slices.CompactFunc(slices.DeleteFunc(days, func(d time.Time) bool { return d.After(now) }), time.Time.Equal), nil
}

// dueHistory is the statement that deletes jobs of a shard that ended on a day and meet a condition, in the order of their keys. The
// conditions of the outer statement leave only the table of the day, and a range of its index, to the planner.
func (p *postgresRetention) dueHistory(ended, which filter, shard int16, next string) (text string, args []any) {
	return rebindPlaceholders(`DELETE FROM history AS h WHERE h.ended_at >= ? AND h.ended_at < ? AND h.shard = ? AND h.key >= ? AND (h.shard, h.key, h.rule_id, h.id, h.ended_at) IN
	(SELECT f.shard, f.key, f.rule_id, f.id, f.ended_at FROM history f WHERE ` + ended.text + ` AND (` + which.text + `) AND f.shard = ? AND f.key >= ?
	ORDER BY f.key LIMIT ?) RETURNING h.key`), slices.Concat(ended.args, []any{shard, next}, ended.args, which.args, []any{shard, next, pruneBatch})
}

// dropHistoryOf reads each shard once, in the order of its keys.
func (p *postgresRetention) dropHistoryOf(ctx context.Context, day time.Time, shards []int16, which filter, more func() bool) (total int64, all bool, err error) {
	ended, _ := p.endedOn(ctx, day)
	for _, shard := range shards {
		for next, n := "", pruneBatch; n == pruneBatch; {
			if !more() {
				return total, false, nil
			}
			var keys []string
			text, args := p.dueHistory(ended, which, shard, next)
			err := pgx.BeginTxFunc(ctx, p.pool, begin, func(tx pgx.Tx) error {
				rows, err := tx.Query(ctx, text, args...)
				if err != nil {
					return err
				}
				if keys, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
					return err
				}
				_, err = tx.Exec(ctx, countPruned, len(keys), "history")
				return err
			})
			if err != nil {
				return total, false, err
			}
			if n = len(keys); n > 0 {
				next = slices.Max(keys)
			}
			total += int64(n)
		}
	}
	return total, true, nil
}

// dropEmptyDay drops the table of a day, unless it has rows.
func (p *postgresRetention) dropEmptyDay(ctx context.Context, day time.Time) error {
	days, err := p.days(ctx)
	if err != nil || !slices.ContainsFunc(days, day.Equal) || p.isResting() {
		return err
	}
	_, err = p.dropDay(ctx, day)
	if isLocked(err) { // an empty table is harmless
		return nil
	}
	return err
}
