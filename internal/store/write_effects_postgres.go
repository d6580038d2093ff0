package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// queueNet puts all writes of a batch into one round trip. Endings come before creations, which may be for the same
// keys. create are the new jobs of the net effect that are not written yet.
func queueNet(ctx context.Context, q *pgx.Batch, b futurejobs.EffectBatch, net futurejobs.FoldResult, create []*futurejobs.Job, now time.Time, repeats bool) error {
	if err := queueEndings(q, net.End, repeats); err != nil {
		return err
	}
	queueStartedAndEnded(q, net.StartedAndEnded, now)
	if err := queueCreations(q, create); err != nil {
		return err
	}
	queueChanges(q, net.Change)
	for _, a := range net.Acks {
		for _, w := range ackWrites(a) {
			q.Queue(w.text, w.args...)
		}
	}
	queueUpdates(q, net.Update)
	if err := queueOrders(q, net.Reorder); err != nil {
		return err
	}
	queueTurnedAway(q, net.Unbegun)
	if err := queueRemembered(q, net.Remember); err != nil {
		return err
	}
	queueForgotten(q, net.Forget)
	letters, tried, err := letterWrites(ctx, b, net, now)
	if err != nil {
		return err
	}
	for _, l := range letters {
		q.Queue(l.text, l.args...)
	}
	if b.Letter != nil {
		q.Queue(tried.text, tried.args...).Exec(expect(1, futurejobs.ErrNotFound))
	}
	lines, err := auditOf(ctx, b, net, now)
	if err != nil {
		return err
	}
	for _, line := range lines {
		q.Queue(insertAudit, line...)
	}
	if b.RequestID != "" {
		kept, err := outcomeOf(applied(b, net))
		if err != nil {
			return err
		}
		q.Queue(keepOutcome, kept, escape(b.RequestID)).Exec(expect(1, access.ErrRunning))
	}
	created := len(net.Create) + len(net.StartedAndEnded)
	if b.Stream == "" && created == 0 {
		return nil // a manual change, without a job to count
	}
	q.Queue(advance, b.Last, when(b.LastAt), created, b.Stream, b.After, b.Lost).Exec(expect(1, futurejobs.ErrCursorMoved))
	if b.Tick != nil {
		q.Queue(insertTick, tickRow(*b.Tick, now)...)
	}
	return nil
}

// createAtOnce is the number of jobs that one statement creates.
const createAtOnce = 2000

// creations sorts new jobs into write order. They are sorted as a whole, so two batches that create the same jobs wait
// for one another without a deadlock.
func creations(jobs []*futurejobs.Job) []*futurejobs.Job {
	slices.SortFunc(jobs, func(a, b *futurejobs.Job) int { return compareRefs(a.Ref, b.Ref) })
	return jobs
}

// createAhead writes new jobs in parts, each in a round trip, until one statement's worth is left: a whole bulk would
// have to be in memory as it is sent. Jobs that end are written first, so if any job ends, all new jobs are left.
func createAhead(ctx context.Context, tx pgx.Tx, jobs []*futurejobs.Job, ends int) (left []*futurejobs.Job, err error) {
	for ends == 0 && len(jobs) > createAtOnce {
		part := &pgx.Batch{}
		if err := queueCreations(part, jobs[:createAtOnce]); err != nil {
			return nil, err
		}
		if err := tx.SendBatch(ctx, part).Close(); err != nil {
			return nil, err
		}
		jobs = jobs[createAtOnce:]
	}
	return jobs, nil
}

func queueCreations(q *pgx.Batch, jobs []*futurejobs.Job) error {
	for part := range slices.Chunk(jobs, createAtOnce) {
		c := creationOf(part)
		if c.err != nil {
			return c.err
		}
		text, args := c.insertPendingSQL()
		q.Queue(text, args...).Exec(expect(len(part), errConcurrentCreate))
	}
	return nil
}

func queueStartedAndEnded(q *pgx.Batch, decisions []futurejobs.Decision, now time.Time) {
	if len(decisions) == 0 {
		return
	}
	jobs := make([]*futurejobs.Job, len(decisions))
	for i := range decisions {
		jobs[i] = &decisions[i].Job
	}
	c := creationOf(jobs)
	for i := range decisions {
		c.outcome.text(string(decisions[i].Outcome))
		c.reason.optional(decisions[i].Reason)
	}
	text, args := c.insertHistorySQL(now)
	q.Queue(text, args...)
}

func queueEndings(q *pgx.Batch, ends []futurejobs.Decision, repeats bool) error {
	if len(ends) == 0 {
		return nil
	}
	decisions := make([]*futurejobs.Decision, len(ends))
	for i := range ends {
		decisions[i] = &ends[i]
	}
	c, _, err := columnsOf(decisions) // they are sent with the rest of the batch, and not reused
	if err != nil {
		return err
	}
	c.alerts.repeats = repeats
	text, args := c.endSQL()
	q.Queue(text, args...).QueryRow(func(row pgx.Row) error {
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

var (
	// changeJobs and updateJobs need no comparison, since their jobs are locked.
	changeJobs = `
UPDATE future_job f SET rev = f.rev + 1, next_check_at = job.next_check_at, version = job.version,
	pauses = job.pauses, paused_next_at = job.paused_next_at, members = job.members, state = job.state, acked_until = job.acked_until,
	since_at = job.since_at, event = job.event, step = job.step, check_count = job.check_count, undecided = job.undecided,
	snoozed_until = job.snoozed_until, trail = ` + trailWith("f.trail", "job.trail", findInPostgres) + `
FROM unnest($1::smallint[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], $6::timestamptz[], $7::int[], $8::bytea[],
	$9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::int[], $14::int[], $15::int[], $16::timestamptz[])
	AS job (shard, id, state, members, trail, next_check_at, version, pauses, paused_next_at,
	acked_until, since_at, event, step, check_count, undecided, snoozed_until)
WHERE f.shard = job.shard AND f.id = job.id`

	updateJobs = `
UPDATE future_job f SET state = job.state, members = job.members, trail = ` + trailWith("f.trail", "job.trail", findInPostgres) + `
FROM unnest($1::smallint[], $2::bigint[], $3::text[], $4::bytea[], $5::text[]) AS job (shard, id, state, members, trail)
WHERE f.shard = job.shard AND f.id = job.id`
)

const (
	insertEarly = `
INSERT INTO early (shard, rule_id, key, at, until_at, outcome, members, ends, changes)
SELECT * FROM unnest($1::smallint[], $2::int[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::bytea[], $8::text[], $9::text[])
ON CONFLICT (shard, rule_id, key) DO UPDATE
SET at = excluded.at, until_at = excluded.until_at, outcome = excluded.outcome, members = excluded.members, ends = excluded.ends,
	changes = excluded.changes`

	insertTurnedAway = `
INSERT INTO early (shard, rule_id, key, at, until_at, turned_away)
SELECT away.*, TRUE FROM unnest($1::smallint[], $2::int[], $3::text[], $4::timestamptz[], $5::timestamptz[]) AS away` + turnedAway

	reorderJobs = `
UPDATE future_job f SET ordering = job.ordering FROM unnest($1::smallint[], $2::bigint[], $3::text[]) AS job (shard, id, ordering)
WHERE f.shard = job.shard AND f.id = job.id`

	deleteEarly = `
DELETE FROM early e USING unnest($1::smallint[], $2::int[], $3::text[]) AS ref (shard, rule_id, key)
WHERE e.shard = ref.shard AND e.rule_id = ref.rule_id AND e.key = ref.key`
)

func queueChanges(q *pgx.Batch, jobs []futurejobs.Job) {
	n := len(jobs)
	if n == 0 {
		return
	}
	next, versions := make([]time.Time, n), make([]int32, n)
	pauses, pausedNext, acked := make([][]byte, n), make([]pgtype.Timestamptz, n), make([]pgtype.Timestamptz, n)
	since, events, snoozed := make([]time.Time, n), make([]*string, n), make([]pgtype.Timestamptz, n)
	steps, counts, undecided := make([]int32, n), make([]int32, n), make([]int32, n)
	for i, j := range jobs {
		next[i], versions[i] = j.NextCheckAt, j.Version
		pauses[i], pausedNext[i], acked[i] = pausesOf(j.Pauses), stamp(j.PausedNext), stamp(j.AckedUntil)
		since[i], events[i], snoozed[i] = j.Since, body(j.Event), stamp(j.SnoozedUntil)
		steps[i], counts[i], undecided[i] = int32(j.Step), int32(j.CheckCount), int32(j.UndeterminedChecks)
	}
	q.Queue(changeJobs, append(newColumns(jobs), next, versions, pauses, pausedNext, acked, since, events, steps, counts, undecided, snoozed)...).
		Exec(expect(n, errLockedJobGone))
}

func queueUpdates(q *pgx.Batch, jobs []futurejobs.Job) {
	if len(jobs) > 0 {
		q.Queue(updateJobs, newColumns(jobs)...).Exec(expect(len(jobs), errLockedJobGone))
	}
}

// errLockedJobGone means that a locked job no longer exists.
var errLockedJobGone = errors.New("a locked job has gone")

// newColumns returns the changed columns of existing jobs.
func newColumns(jobs []futurejobs.Job) []any {
	n := len(jobs)
	shards, ids := make([]int16, n), make([]int64, n)
	states, members, trails := make([]*string, n), make([][]byte, n), make([]*string, n)
	for i, j := range jobs {
		shards[i], ids[i], states[i], members[i], trails[i] = j.Shard, j.ID, body(j.State), j.Members, optional(string(j.Trail))
	}
	return []any{shards, ids, states, members, trails}
}

// queueOrders writes the event order of jobs. Few jobs have one.
func queueOrders(q *pgx.Batch, jobs []futurejobs.Job) (err error) {
	n := len(jobs)
	if n == 0 {
		return nil
	}
	shards, ids, orders := make([]int16, n), make([]int64, n), make([]*string, n)
	for i, j := range jobs {
		shards[i], ids[i] = j.Shard, j.ID
		if orders[i], err = orderingOf(j.Order); err != nil {
			return err
		}
	}
	q.Queue(reorderJobs, shards, ids, orders).Exec(expect(n, errLockedJobGone))
	return nil
}

func queueRemembered(q *pgx.Batch, early []futurejobs.EarlyEvent) (err error) {
	n := len(early)
	if n == 0 {
		return nil
	}
	names := make([]futurejobs.Ref, n)
	at, until := make([]time.Time, n), make([]time.Time, n)
	outcomes, members, ends, changes := make([]*string, n), make([][]byte, n), make([]*string, n), make([]*string, n)
	for i, e := range early {
		if ends[i], err = endsOf(e); err != nil {
			return err
		}
		if changes[i], err = changesOf(e); err != nil {
			return err
		}
		names[i], at[i], until[i], outcomes[i], members[i] = e.Ref, e.At, e.Until, optional(string(e.Outcome)), e.Members
	}
	shards, rules, keys := refColumns(names)
	q.Queue(insertEarly, shards, rules, keys, at, until, outcomes, members, ends, changes)
	return nil
}

// queueTurnedAway records the jobs that a quota refused. It comes before the early events of their keys.
func queueTurnedAway(q *pgx.Batch, all []futurejobs.Unbegun) {
	gone := turnedAwayOf(all)
	if len(gone) == 0 {
		return
	}
	names, at, until := make([]futurejobs.Ref, len(gone)), make([]time.Time, len(gone)), make([]time.Time, len(gone))
	for i, u := range gone {
		names[i], at[i], until[i] = u.Ref, u.At, u.Until
	}
	shards, rules, keys := refColumns(names)
	q.Queue(insertTurnedAway, shards, rules, keys, at, until)
}

func queueForgotten(q *pgx.Batch, names []futurejobs.Ref) {
	if len(names) > 0 {
		shards, rules, keys := refColumns(names)
		q.Queue(deleteEarly, shards, rules, keys)
	}
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
