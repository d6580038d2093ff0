package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	futurejobs "deadman/future_jobs"
)

const dueRange = `
SELECT ` + dueColumns + ` FROM future_job f
WHERE f.shard = $1 AND (f.next_check_at, f.id) > ($2, $3) AND f.next_check_at <= $4`

// Due implements futurejobs.Queue.
func (e *sqlite) Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error) {
	text := dueRange
	if len(q.Not) > 0 {
		text += ` AND (f.rule_id, f.version) NOT IN (VALUES ` + editions(q.Not) + `)`
	}
	if len(q.Of) > 0 {
		text += ` AND +f.rule_id IN ` + these(q.Of)
	}
	text += ` ORDER BY f.next_check_at, f.id LIMIT ` + strconv.Itoa(q.Limit)
	walks := slices.SortedFunc(slices.Values(q.Walks), func(a, b futurejobs.Walk) int {
		return cmp.Compare(a.Shard, b.Shard)
	})
	jobs := q.Room[:0]
	for _, w := range walks {
		due, err := query(ctx, e.read, func(row scanner, j *futurejobs.Job) error { return row.Scan(dueFields(j)...) }, text, w.Shard, w.At, w.ID, q.Until)
		if err != nil {
			return nil, failed("due", err)
		}
		jobs = append(jobs, due...)
	}
	return jobs, nil
}

// editions are versions of rules as rows of a list.
func editions(all []futurejobs.Edition) string {
	rows := make([]string, len(all))
	for i, e := range all {
		rows[i] = these([]int32{e.RuleID, e.Version})
	}
	return strings.Join(rows, ",")
}

// DueBuffers is of engine.
func (*sqlite) DueBuffers(context.Context, futurejobs.DueQuery) (int64, error) { return 0, nil }
