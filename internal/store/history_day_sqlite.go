package store

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
)

// sqliteRetention deletes and counts parts of the history.
type sqliteRetention struct{ *sqliteHistory }

// endedBefore skips the later rows by their number: rows are numbered in time order, with a tolerance of clockSlack.
func (e *sqliteRetention) endedBefore(ctx context.Context, before time.Time) (filter, error) {
	end, err := e.firstEnd(ctx, before.Add(2*clockSlack))
	return filter{`f.seq < ? AND f.ended_at < ?`, []any{end, before}}, err
}

func (e *sqliteRetention) endedOn(ctx context.Context, day time.Time) (filter, error) {
	first, end, err := e.rowsOf(ctx, day)
	return filter{`f.seq >= ? AND f.seq < ? AND f.ended_at >= ? AND f.ended_at < ?`, []any{first, end, day, day.Add(futurejobs.Day)}}, err
}

// rowsOf returns the range of the numbers of the jobs that ended on a day.
func (e *sqliteRetention) rowsOf(ctx context.Context, day time.Time) (first, end int64, err error) {
	if first, err = e.firstEnd(ctx, day); err != nil {
		return 0, 0, err
	}
	end, err = e.firstEnd(ctx, day.Add(futurejobs.Day+2*clockSlack))
	return first, end, err
}

func (e *sqliteRetention) historyDays(ctx context.Context, now time.Time) ([]time.Time, error) {
	oldest, err := e.oldest(ctx)
	if err != nil || oldest.IsZero() {
		return nil, err
	}
	return daysFrom(oldest, now), nil
}

// dropHistoryOf reads the rows of the day once, in portions.
func (e *sqliteRetention) dropHistoryOf(ctx context.Context, day time.Time, _ []int16, which filter, more func() bool) (total int64, all bool, err error) {
	first, end, err := e.rowsOf(ctx, day)
	for ; err == nil && first < end; first += pruneBatch {
		if !more() {
			return total, false, nil
		}
		var n int64
		err = e.write(ctx, func(w *writer, _ time.Time) error {
			n, err = w.exec(rebindPlaceholders(`DELETE FROM history AS f WHERE f.seq >= ? AND f.seq < ? AND f.ended_at >= ? AND f.ended_at < ? AND (`+which.text+`)`),
				append([]any{first, min(first+pruneBatch, end), day, day.Add(futurejobs.Day)}, which.args...)...)
			if err != nil || n == 0 {
				return err
			}
			_, err = w.exec(countPruned, n, "history")
			return err
		})
		total += n
	}
	return total, err == nil, err
}

// dropEmptyDay does nothing: SQLite has one table.
func (e *sqliteRetention) dropEmptyDay(context.Context, time.Time) error { return nil }
