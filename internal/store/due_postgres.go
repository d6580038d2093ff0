package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	futurejobs "deadman/future_jobs"
)

// All walks are read in one round trip: for each a range of future_job_due, in its order. A filter applies after the
// limit, so the rows that are read bound a query, not the rows that match: among millions of pending jobs few might
// match. The row at the limit is returned in any case, as it marks the end of the read.
const (
	dueFrom = `
SELECT ` + dueCells + `
FROM unnest(?::smallint[], ?::timestamptz[], ?::bigint[]) AS walk (shard, next_check_at, id)
CROSS JOIN LATERAL (`
	dueRead = `
	SELECT * FROM future_job j
	WHERE j.shard = walk.shard AND (j.next_check_at, j.id) > (walk.next_check_at, walk.id) AND j.next_check_at <= ?
	ORDER BY j.shard, j.next_check_at, j.id
	LIMIT ?`
	dueFiltered = `
	SELECT * FROM (
		SELECT j.*, row_number() OVER (ORDER BY j.next_check_at, j.id) AS place FROM (` + dueRead + `) AS j
	) AS j
	WHERE j.place = ?`
	dueOnly = `j.rule_id = ANY(?::int[])`
	dueSkip = `NOT (j.next_check_at > ? AND (j.rule_id, j.version) IN (SELECT * FROM unnest(?::int[], ?::int[])))`
	dueEnd  = `
) AS f`

	// dueWithin ends a page with the row that makes the page reach a number of bytes.
	dueWithin = `
SELECT ` + dueCells + ` FROM (
	SELECT f.*, coalesce(sum(` + dueBytes + `)
		OVER (ORDER BY f.shard, f.next_check_at, f.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
	FROM (`
	dueBelow = `) AS f
) AS f
WHERE f.before < ?`
)

// errTooManyBytes means that a page exceeds the requested bytes.
var errTooManyBytes = errors.New("the page has too many bytes")

// postgresDue reads pages of due jobs.
type postgresDue struct {
	*postgresPool
	largeBodies atomic.Bool // pages are bounded by bytes
}

// Due implements futurejobs.Queue. A bound by bytes costs the server time for each row, and nearly no page needs it.
// Due reads the page without the bound first, and again with the bound if it has too many bytes. Later pages are
// bounded until their bodies are small again.
func (p *postgresDue) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	whole := ctx
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	bounded := q.Bytes > 0 && p.largeBodies.Load()
	jobs, err := p.due(ctx, q, bounded)
	if errors.Is(err, errTooManyBytes) {
		p.largeBodies.Store(true)
		bounded = true
		jobs, err = p.due(ctx, q, bounded)
	}
	if err = p.outOfTime(whole, err); err != nil {
		if errors.Is(err, futurejobs.ErrTooSlow) { // smaller pages are the bounded ones
			p.largeBodies.Store(true)
		}
		return nil, wrapErr("due", err)
	}
	if bounded && futurejobs.Bodies(jobs) < q.Bytes/4 {
		p.largeBodies.Store(false)
	}
	sortByDue(jobs) // a join promises no order
	return jobs, nil
}

// due reads one page. It cancels the query if the page is not bounded and has too many bytes.
func (p *postgresDue) due(ctx context.Context, q futurejobs.DueQuery, bounded bool) ([]futurejobs.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	text, args := dueStatement(q, bounded)
	rows, err := p.pool.Query(ctx, text, append([]any{inBinary}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	limit := q.Bytes
	if bounded {
		limit = 0
	}
	jobs, err := readDue(q.Room, rows, limit)
	if errors.Is(err, errTooManyBytes) {
		cancel() // otherwise Close would read the rest
	}
	return jobs, err
}

// dueStatement returns the statement of a query and its parameters.
func dueStatement(q futurejobs.DueQuery, bounded bool) (text string, args []any) {
	n := len(q.Cursors)
	shards, instants, ids := make([]int16, n), make([]time.Time, n), make([]int64, n)
	for i, w := range q.Cursors {
		shards[i], instants[i], ids[i] = w.Shard, w.At, w.ID
	}
	text, args = dueFrom, []any{shards, instants, ids}
	read := []any{q.Until, q.Limit}
	if filter, values := dueFilter(q); filter != "" {
		text, args = text+dueFiltered+filter, append(append(append(args, read...), q.Limit), values...)
	} else {
		text, args = text+dueRead, append(args, read...)
	}
	text += dueEnd
	if bounded {
		text = strings.Replace(text, dueCells, `f.*`, 1)
		text, args = dueWithin+text+dueBelow, append(args, q.Bytes)
	}
	return rebindPlaceholders(text), args
}

// dueFilter returns the condition of a query on a job j, to follow the condition for the row at the limit.
func dueFilter(q futurejobs.DueQuery) (text string, args []any) {
	var conditions []string
	if len(q.Of) > 0 {
		conditions, args = append(conditions, dueOnly), append(args, q.Of)
	}
	for _, skipped := range skips(q.Not) {
		conditions, args = append(conditions, dueSkip), append(args, skipped.after, skipped.rules, skipped.versions)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return ` OR ` + strings.Join(conditions, ` AND `), args
}

// inBinary makes the server send all columns of a result in binary.
var inBinary = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// DueBuffers has the server run the statement of Due and report the pages that it touched.
func (p *postgresDue) DueBuffers(ctx context.Context, q futurejobs.DueQuery) (int64, error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	text, args := dueStatement(q, false)
	var explained []struct {
		Plan struct {
			Hit  int64 `json:"Shared Hit Blocks"`
			Read int64 `json:"Shared Read Blocks"`
		}
	}
	if err := p.pool.QueryRow(ctx, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+text, args...).Scan(&explained); err != nil {
		return 0, wrapErr("due", err)
	}
	return explained[0].Plan.Hit + explained[0].Plan.Read, nil
}

// sortByDue sorts jobs by (shard, next_check_at, id). They nearly always are sorted: slices.SortFunc would copy each
// job to find that out.
func sortByDue(jobs []futurejobs.Job) {
	for i := 1; i < len(jobs); i++ {
		if compareDue(&jobs[i-1], &jobs[i]) > 0 {
			slices.SortFunc(jobs, func(a, b futurejobs.Job) int { return compareDue(&a, &b) })
			return
		}
	}
}

func compareDue(a, b *futurejobs.Job) int {
	return cmp.Or(cmp.Compare(a.Shard, b.Shard), a.NextCheckAt.Compare(b.NextCheckAt), cmp.Compare(a.ID, b.ID))
}
