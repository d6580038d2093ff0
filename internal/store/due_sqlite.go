package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	futurejobs "deadman/future_jobs"
)

const (
	dueInRange = ` FROM future_job f
WHERE f.shard = $1 AND (f.next_check_at, f.id) > ($2, $3) AND f.next_check_at <= $4
ORDER BY f.next_check_at, f.id LIMIT `
	dueRange = `SELECT ` + dueColumns + dueInRange
)

// sqliteDue reads pages of due jobs.
type sqliteDue struct{ *sqliteFile }

// Due implements futurejobs.Queue.
func (e *sqliteDue) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	text := dueText(q)
	walks := slices.SortedFunc(slices.Values(q.Cursors), func(a, b futurejobs.ShardCursor) int {
		return cmp.Compare(a.Shard, b.Shard)
	})
	jobs, bytes := q.Room[:0], 0
	for _, w := range walks {
		from := len(jobs)
		var err error
		if jobs, err = e.dueIn(ctx, jobs, q.Bytes-bytes, text, w.Shard, w.At, w.ID, q.Until); err != nil {
			return nil, wrapErr("due", err)
		}
		if bytes += futurejobs.Bodies(jobs[from:]); q.Bytes > 0 && bytes >= q.Bytes {
			break
		}
	}
	return jobs, nil
}

// dueIn appends the due jobs of one shard to jobs until their bodies reach limit bytes; 0 or less: no bound.
func (e *sqliteDue) dueIn(ctx context.Context, jobs []futurejobs.Job, limit int, text string, args ...any) (_ []futurejobs.Job, err error) {
	whole := ctx
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != nil && whole.Err() == nil {
			err = fmt.Errorf("%w: %w", futurejobs.ErrTooSlow, err)
		}
	}()
	rows, err := e.read.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // it was read, or failed
	bytes := 0
	for rows.Next() {
		var j futurejobs.Job
		if err := rows.Scan(dueFields(&j)...); err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
		if bytes += j.Size(); limit > 0 && bytes >= limit {
			return jobs, nil
		}
	}
	return jobs, rows.Err()
}

// dueText returns the statement of a query for one shard. The limit applies to the rows that are read, and the last of
// them is returned in any case.
func dueText(q futurejobs.DueQuery) string {
	limit := strconv.Itoa(q.Limit)
	var conditions []string
	if len(q.Of) > 0 {
		conditions = append(conditions, `f.rule_id IN `+inList(q.Of))
	}
	for _, s := range skips(q.Not) {
		conditions = append(conditions, `NOT (f.next_check_at > `+strconv.FormatInt(s.after.UnixMicro(), 10)+
			` AND (f.rule_id, f.version) IN (VALUES `+s.values()+`))`)
	}
	if len(conditions) == 0 {
		return dueRange + limit
	}
	return `SELECT ` + dueColumns + ` FROM (
	SELECT f.*, row_number() OVER (ORDER BY f.next_check_at, f.id) AS place FROM (SELECT f.id, f.next_check_at, f.rule_id, f.version` + dueInRange + limit + `) AS f
) AS s JOIN future_job f ON f.id = s.id
WHERE s.place = ` + limit + ` OR ` + strings.Join(conditions, ` AND `) + ` ORDER BY s.next_check_at, s.id`
}

// DueBuffers implements engine.
func (*sqliteDue) DueBuffers(context.Context, futurejobs.DueQuery) (int64, error) { return 0, nil }
