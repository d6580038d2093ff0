package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	futurejobs "deadman/future_jobs"
)

// All walks are read in one round trip: for each a range of future_job_due, in its order. dueNot leaves out
// some versions of rules, dueOnly all rules but some.
const (
	dueFrom = `
SELECT ` + dueCells + `
FROM unnest(?::smallint[], ?::timestamptz[], ?::bigint[]) AS walk (shard, next_check_at, id)
CROSS JOIN LATERAL (
	SELECT * FROM future_job j
	WHERE j.shard = walk.shard AND (j.next_check_at, j.id) > (walk.next_check_at, walk.id) AND j.next_check_at <= ?`
	dueNot  = ` AND (j.rule_id, j.version) NOT IN (SELECT * FROM unnest(?::int[], ?::int[]))`
	dueOnly = ` AND j.rule_id = ANY(?::int[])`
	dueIn   = `
	ORDER BY j.shard, j.next_check_at, j.id
	LIMIT ?
) AS f`
)

// Due implements futurejobs.Queue.
func (p *postgres) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	ctx, cancel := patiently(ctx)
	defer cancel()
	text, args := dueStatement(q)
	rows, err := p.pool.Query(ctx, text, append([]any{inBinary}, args...)...)
	if err != nil {
		return nil, failed("due", err)
	}
	defer rows.Close()
	jobs, err := readDue(q.Room, rows)
	if err != nil {
		return nil, failed("due", err)
	}
	slices.SortFunc(jobs, inDueOrder) // a join promises no order
	return jobs, nil
}

// dueStatement is the statement of a query with its parameters.
func dueStatement(q futurejobs.DueQuery) (text string, args []any) {
	n := len(q.Walks)
	shards, instants, ids := make([]int16, n), make([]time.Time, n), make([]int64, n)
	for i, w := range q.Walks {
		shards[i], instants[i], ids[i] = w.Shard, w.At, w.ID
	}
	text, args = dueFrom, []any{shards, instants, ids, q.Until}
	if len(q.Not) > 0 {
		rules, versions := make([]int32, len(q.Not)), make([]int32, len(q.Not))
		for i, e := range q.Not {
			rules[i], versions[i] = e.RuleID, e.Version
		}
		text, args = text+dueNot, append(args, rules, versions)
	}
	if len(q.Of) > 0 {
		text, args = text+dueOnly, append(args, q.Of)
	}
	return numbered(text + dueIn), append(args, q.Limit)
}

// inBinary has the server send all columns of a result in binary.
var inBinary = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// DueBuffers has the server run the statement of Due and say what it touched.
func (p *postgres) DueBuffers(ctx context.Context, q futurejobs.DueQuery) (int64, error) {
	ctx, cancel := patiently(ctx)
	defer cancel()
	text, args := dueStatement(q)
	var explained []struct {
		Plan struct {
			Hit  int64 `json:"Shared Hit Blocks"`
			Read int64 `json:"Shared Read Blocks"`
		}
	}
	if err := p.pool.QueryRow(ctx, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+text, args...).Scan(&explained); err != nil {
		return 0, failed("due", err)
	}
	return explained[0].Plan.Hit + explained[0].Plan.Read, nil
}

// inDueOrder compares jobs by (shard, next_check_at, id).
func inDueOrder(a, b futurejobs.Job) int {
	return cmp.Or(cmp.Compare(a.Shard, b.Shard), a.NextCheckAt.Compare(b.NextCheckAt), cmp.Compare(a.ID, b.ID))
}
