package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	futurejobs "deadman/future_jobs"
)

// errOvertaken means that a job was created between our look and our write. It passes: the
// next try sees it.
var errOvertaken = errors.New("somebody else created a job meanwhile")

// begin bounds the transaction in the same round trip.
var begin = pgx.TxOptions{BeginQuery: `BEGIN; SELECT ` + bounded}

// Apply implements futurejobs.Ledger.
func (p *postgres) Apply(ctx context.Context, b futurejobs.Batch) (futurejobs.Applied, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	var net futurejobs.Net
	err := again(ctx, p.passing, func() (err error) {
		net, err = p.applyOnce(ctx, b)
		return err
	})
	if err != nil {
		return futurejobs.Applied{}, failed("apply", err)
	}
	return applied(net), nil
}

// applyOnce works in three round trips and a commit. All of it is bounded, not only its
// statements: a job that appeared later would be behind the sweep.
//
//  1. The transaction begins.
//  2. The cursor, the rule set and the jobs are locked.
//  3. The net effect is written, and the cursor moves.
func (p *postgres) applyOnce(ctx context.Context, b futurejobs.Batch) (net futurejobs.Net, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := p.pool.BeginTx(ctx, begin)
	if err != nil {
		return net, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after a commit it does nothing
	pending, now, err := p.lockBatch(ctx, tx, b)
	if err != nil {
		return net, err
	}
	net = futurejobs.Fold(b.Effects, pending, now)
	writes := &pgx.Batch{}
	if err := queueNet(writes, b, net, now); err != nil {
		return net, err
	}
	if writes.Len() > 0 {
		if err := tx.SendBatch(ctx, writes).Close(); err != nil {
			return net, err
		}
	}
	return net, tx.Commit(ctx)
}

const lockJobs = `
SELECT ` + jobColumns + ` FROM future_job f
JOIN unnest($1::smallint[], $2::int[], $3::text[]) AS ref (shard, rule_id, key)
	ON f.shard = ref.shard AND f.rule_id = ref.rule_id AND f.key = ref.key
ORDER BY f.shard, f.id
FOR UPDATE OF f`

// lockBatch locks what the batch rests on and returns the jobs that it names, and the
// transaction's time. It returns ErrMoved or ErrRulesChanged.
func (p *postgres) lockBatch(ctx context.Context, tx pgx.Tx, b futurejobs.Batch) (map[futurejobs.Ref]futurejobs.Job, time.Time, error) {
	var now time.Time
	var jobs []futurejobs.Job
	var moved, closed bool
	locks := &pgx.Batch{}
	if b.Stream != "" {
		locks.Queue(`SELECT last_seq FROM event_cursor WHERE stream = $1 FOR UPDATE`, b.Stream).QueryRow(func(row pgx.Row) error {
			var seq uint64
			err := row.Scan(&seq)
			moved = errors.Is(err, pgx.ErrNoRows) || seq != b.After
			return unless(moved, err)
		})
	}
	locks.Queue(numbered(`SELECT now() FROM (`+ruleFence+`) AS rule_now`), b.RuleSet).QueryRow(func(row pgx.Row) error {
		err := row.Scan(at(&now))
		closed = errors.Is(err, pgx.ErrNoRows)
		return unless(closed, err)
	})
	if len(b.Effects) > 0 {
		shards, rules, keys := refColumns(refs(b.Effects))
		locks.Queue(lockJobs, shards, rules, keys).Query(func(rows pgx.Rows) (err error) {
			jobs, err = all(rows, readJob)
			return err
		})
	}
	err := tx.SendBatch(ctx, locks).Close()
	switch {
	case err != nil:
		return nil, now, err
	case moved:
		return nil, now, futurejobs.ErrMoved
	case closed:
		return nil, now, ruleSetMoved(ctx, tx, b.RuleSet)
	}
	return byRef(jobs), now, nil
}

func refColumns(refs []futurejobs.Ref) (shards []int16, rules []int32, keys []string) {
	for _, r := range refs {
		shards = append(shards, r.Shard)
		rules = append(rules, r.RuleID)
		keys = append(keys, escape(r.Key))
	}
	return shards, rules, keys
}

// queueNet puts all writes of a batch into one round trip.
func queueNet(q *pgx.Batch, b futurejobs.Batch, net futurejobs.Net, now time.Time) error {
	if err := queueEndings(q, net.End); err != nil {
		return err
	}
	queueBorn(q, net.Born, now)
	queueCreations(q, net.Create)
	for _, l := range b.DeadLetters {
		args, err := letter(l, now)
		if err != nil {
			return err
		}
		q.Queue(insertLetter, args...)
	}
	created := len(net.Create) + len(net.Born)
	if b.Stream == "" && created == 0 {
		return nil // by hand, and nothing to count
	}
	q.Queue(advance, b.Last, when(b.LastAt), created, b.Stream, b.After).Exec(expect(1, futurejobs.ErrMoved))
	return nil
}

// endText ends jobs that are locked: there is nothing to fence.
func endText(c *columns) string {
	text := `WITH ask AS (SELECT * FROM ` + asked + `)` + end + doneEnded
	if len(c.alertID) > 0 {
		text += speak
	}
	return numbered(text + ` SELECT count(*) FROM done`)
}

func queueEndings(q *pgx.Batch, ends []futurejobs.Decision) error {
	if len(ends) == 0 {
		return nil
	}
	c, err := columnsOf(ends)
	if err != nil {
		return err
	}
	q.Queue(endText(c), c.args()...).QueryRow(func(row pgx.Row) error {
		var n int
		if err := row.Scan(&n); err != nil {
			return err
		}
		if n != len(ends) {
			return fmt.Errorf("%d of %d locked jobs ended", n, len(ends))
		}
		return nil
	})
	return nil
}

// newJobs are jobs as arrays; the names of their columns are in the order of args.
const newJobs = `unnest($1::smallint[], $2::int[], $3::int[], $4::text[], $5::timestamptz[], $6::timestamptz[],
	$7::timestamptz[], $8::timestamptz[], $9::text[], $10::text[]) AS job
	(shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event, state)`

const (
	insertJobs = `
INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event, state)
SELECT * FROM ` + newJobs + `
ON CONFLICT (shard, rule_id, key) DO NOTHING`

	// A job that began and ended at once takes an id like any other, and is never pending.
	insertBorn = `
INSERT INTO history (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at,
	id, ended_at, outcome, reason, check_count, step, checks, check_total, check_slowest)
SELECT shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at,
	nextval('future_job_id_seq'), $11, ended.outcome, ended.reason, 0, 0, 0, 0, 0
FROM (SELECT row_number() OVER () AS place, job.* FROM ` + newJobs + `) AS job
JOIN unnest($12::text[], $13::text[]) WITH ORDINALITY AS ended (outcome, reason, place) ON ended.place = job.place`
)

func queueCreations(q *pgx.Batch, jobs []futurejobs.Job) {
	if len(jobs) == 0 {
		return
	}
	sorted := slices.SortedFunc(slices.Values(jobs), func(a, b futurejobs.Job) int { return compareRefs(a.Ref, b.Ref) })
	q.Queue(insertJobs, jobColumnsOf(sorted)...).Exec(expect(len(jobs), errOvertaken))
}

func queueBorn(q *pgx.Batch, born []futurejobs.Decision, now time.Time) {
	if len(born) == 0 {
		return
	}
	jobs := make([]futurejobs.Job, len(born))
	outcomes, reasons := make([]string, len(born)), make([]*string, len(born))
	for i, d := range born {
		jobs[i], outcomes[i], reasons[i] = d.Job, string(d.Outcome), optional(d.Reason)
	}
	q.Queue(insertBorn, append(jobColumnsOf(jobs), now, outcomes, reasons)...)
}

// jobColumnsOf are the parameters of newJobs.
func jobColumnsOf(jobs []futurejobs.Job) []any {
	n := len(jobs)
	shards, rules, versions, keys := make([]int16, n), make([]int32, n), make([]int32, n), make([]string, n)
	created, since, first, next := make([]time.Time, n), make([]time.Time, n), make([]time.Time, n), make([]time.Time, n)
	events, states := make([]*string, n), make([]*string, n)
	for i, j := range jobs {
		shards[i], rules[i], versions[i], keys[i] = j.Shard, j.RuleID, j.Version, escape(j.Key)
		created[i], since[i], first[i], next[i] = j.CreatedAt, j.Since, j.FirstCheckAt, j.NextCheckAt
		events[i], states[i] = body(j.Event), body(j.State)
	}
	return []any{shards, rules, versions, keys, created, since, first, next, events, states}
}

// expect makes a statement fail with err unless it writes n rows.
func expect(n int, err error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != int64(n) {
			return err
		}
		return nil
	}
}
