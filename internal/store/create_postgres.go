package store

import (
	"cmp"
	"time"

	futurejobs "deadman/future_jobs"
)

// newJobColumns has new jobs as arrays, in write order. Jobs that started and ended at once have an outcome.
type newJobColumns struct {
	shard, rule, version, key, created, since, first, next column
	event, state, pauses, pausedNext, members, ordering    column
	origin, step, trail                                    column
	outcome, reason                                        column
	err                                                    error // of an order that cannot be written
}

func creationOf(jobs []*futurejobs.Job) *newJobColumns {
	c := &newJobColumns{
		shard: smallints.named("shard"), rule: ints.named("rule_id"), version: ints.named("version"), key: texts.named("key"),
		created: timestamptzs.named("created_at"), since: timestamptzs.named("since_at"),
		first: timestamptzs.named("first_check_at"), next: timestamptzs.named("next_check_at"),
		event: texts.named("event"), state: texts.named("state"), pauses: byteas.named("pauses"),
		pausedNext: timestamptzs.named("paused_next_at"), members: byteas.named("members"), ordering: texts.named("ordering"),
		origin: bigints.named("origin"), step: ints.named("step"), trail: texts.named("trail"),
		outcome: texts.named("outcome"), reason: texts.named("reason"),
	}
	for _, column := range []*column{&c.shard, &c.rule, &c.version, &c.created, &c.since, &c.first, &c.next, &c.origin} {
		column.reset(len(jobs), 8*len(jobs))
	}
	keys, events := 0, 0
	for _, j := range jobs {
		keys, events = keys+len(j.Key), events+len(j.Event)
	}
	c.key.reset(len(jobs), keys)
	c.event.reset(len(jobs), events)
	for _, j := range jobs {
		c.add(j)
	}
	sendOnce(&c.rule, &c.version)
	sendOnce(&c.created)
	sendOnce(&c.first, &c.next)
	dropEmpty(&c.event)
	dropEmpty(&c.state, &c.pauses, &c.pausedNext, &c.members)
	dropEmpty(&c.origin)
	dropEmpty(&c.ordering)
	dropEmpty(&c.step, &c.trail)
	return c
}

func (c *newJobColumns) add(j *futurejobs.Job) {
	c.shard.int16(j.Shard)
	c.rule.int32(j.RuleID)
	c.version.int32(j.Version)
	c.key.text(escape(j.Key))
	c.created.instant(j.CreatedAt)
	c.since.instant(j.Since)
	c.first.instant(j.FirstCheckAt)
	c.next.instant(j.NextCheckAt)
	c.event.json(j.Event)
	c.state.json(j.State)
	c.pauses.bytes(pausesOf(j.Pauses))
	c.pausedNext.time(j.PausedNext)
	c.members.bytes(j.Members)
	c.origin.origin(j.Origin)
	if j.Step > 0 {
		c.step.int32(int32(j.Step)) //nolint:gosec // a rule has at most a thousand steps
	} else {
		c.step.null()
	}
	c.trail.optional(string(j.Trail))
	order, err := orderingOf(j.Order)
	c.err = cmp.Or(c.err, err)
	if order == nil {
		c.ordering.null()
	} else {
		c.ordering.text(*order)
	}
}

// begun lists the columns that both statements fill, except the one of the next check.
const begun = `shard, rule_id, version, key, created_at, since_at, first_check_at`

func (c *newJobColumns) begun() string {
	return `job.shard, ` + c.rule.of("job") + `, ` + c.version.of("job") + `, job.key, ` + c.created.of("job") + `, job.since_at, ` + c.first.of("job")
}

// insertPendingSQL returns the statement that creates pending jobs, and its parameters. The events come last: pgx would copy any
// parameters after them to another buffer.
func (c *newJobColumns) insertPendingSQL() (text string, args []any) {
	from, args := table("job", []*column{
		&c.shard, &c.rule, &c.version, &c.key, &c.created, &c.since, &c.first, &c.next,
		&c.pauses, &c.pausedNext, &c.members, &c.ordering, &c.step, &c.trail, &c.origin, &c.state, &c.event,
	})
	return rebindPlaceholders(`
INSERT INTO future_job (` + begun + `, next_check_at, event, state, pauses, paused_next_at, members, ordering, step, trail, origin)
SELECT ` + c.begun() + `, ` + c.next.of("job") + `, ` + c.event.of("job") + `, ` + c.state.of("job") + `,
	` + c.pauses.of("job") + `, ` + c.pausedNext.of("job") + `, ` + c.members.of("job") + `, ` + c.ordering.of("job") + `,
	coalesce(` + c.step.of("job") + `, 0), ` + c.trail.of("job") + `, ` + c.origin.of("job") + `
FROM ` + from + `
ON CONFLICT (shard, rule_id, key) DO NOTHING`), withSizeHint(args)
}

// insertHistorySQL returns the statement that writes the history of jobs that started and ended at once, and its parameters. Such a
// job takes an id like any other and is never pending.
func (c *newJobColumns) insertHistorySQL(now time.Time) (text string, args []any) {
	from, args := table("job", []*column{
		&c.shard, &c.rule, &c.version, &c.key, &c.created, &c.since, &c.first, &c.next, &c.pausedNext, &c.outcome, &c.reason,
	})
	return rebindPlaceholders(`
INSERT INTO history (` + begun + `, next_check_at,
	id, ended_at, outcome, reason, check_count, step, checks, check_total, check_slowest)
SELECT ` + c.begun() + `, coalesce(` + c.pausedNext.of("job") + `, ` + c.next.of("job") + `),
	nextval('future_job_id_seq'), ?::timestamptz, ` + c.outcome.of("job") + `, ` + c.reason.of("job") + `, 0, 0, 0, 0, 0
FROM ` + from), append([]any{now}, args...)
}
