package store

import (
	"slices"
	"strings"
	"sync"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// settleColumns are decisions as arrays, in lock order: the jobs that end, the jobs that continue, and the alerts of
// both.
type settleColumns struct {
	ends     endColumns
	moves    moveColumns
	alerts   alertInsertColumns
	document []byte // the document of the current alert
}

// checkColumns are the job columns that a check changes. Durations are in µs; the slowest check is NULL if it equals
// the total. trail is the new entry.
type checkColumns struct {
	shard, id, rev                     column
	checkCount, step, checks           column
	picked, started, completed, failed column
	total, slowest                     column
	alertIDs, trail                    column
}

type endColumns struct {
	checkColumns
	outcome, reason column
}

type moveColumns struct {
	checkColumns
	next, undecided column
}

type alertInsertColumns struct {
	// repeats means that the table may have some of the alerts already. A look-up of each one would cost time in every
	// settlement.
	repeats bool

	jobID, id, status, severity          column
	decidedAt, since, checkCount, detail column
}

// column is an array with its name in a statement's table.
type column struct {
	arrayEncoder
	name string
	once bool // the value is the same in all rows and sent once
	none bool // not sent: no row has a value, or the statement reads it from the job
}

func newCheckColumns() checkColumns {
	return checkColumns{
		shard: smallints.named("shard"), id: bigints.named("id"), rev: ints.named("rev"),
		checkCount: ints.named("check_count"), step: ints.named("step"), checks: ints.named("checks"),
		picked: timestamptzs.named("picked_at"), started: timestamptzs.named("started_at"),
		completed: timestamptzs.named("completed_at"), failed: timestamptzs.named("failed_at"),
		total: bigints.named("check_total"), slowest: bigints.named("check_slowest"),
		alertIDs: byteas.named("alert_ids"), trail: texts.named("trail"),
	}
}

func (l *checkColumns) all() []*column {
	return []*column{
		&l.shard, &l.id, &l.rev, &l.checkCount, &l.step, &l.checks, &l.picked, &l.started, &l.completed, &l.failed,
		&l.total, &l.slowest, &l.alertIDs, &l.trail,
	}
}

// counters returns the columns that jobs which started together have in common.
func (l *checkColumns) counters() []*column {
	return []*column{&l.rev, &l.checkCount, &l.step, &l.checks}
}

func (e *endColumns) all() []*column { return append(e.checkColumns.all(), &e.outcome, &e.reason) }

// deleteSQL ends the jobs of the decisions.
func (e *endColumns) deleteSQL(rows string) string {
	trail := `f.trail`
	if !e.trail.none {
		trail = trailWith("f.trail", "decision.trail", findInPostgres)
	}
	return `ended AS (
	DELETE FROM future_job f USING ` + rows + `
	WHERE f.shard = decision.shard AND f.id = decision.id AND f.rev = ` + e.rev.of("decision") + `
	RETURNING f.shard, f.id, f.rule_id, f.version, f.key, f.created_at, f.since_at, f.first_check_at,
		coalesce(f.paused_next_at, f.next_check_at), ` + e.outcome.of("decision") + `, ` + e.reason.of("decision") + `,
		` + e.checkCount.of("decision") + `, ` + e.step.of("decision") + `, ` + e.picked.of("decision") + `, ` + e.started.of("decision") + `, ` + e.completed.of("decision") + `, ` + e.failed.of("decision") + `,
		` + e.checks.of("decision") + `, decision.check_total, ` + e.slowest.of("decision") + `, ` + e.alertIDs.of("decision") + `, ` + trail + `
), archived AS (
	INSERT INTO history (shard, id, rule_id, version, key, created_at, since_at, first_check_at, next_check_at,
		outcome, reason, check_count, step, picked_at, started_at, completed_at, failed_at,
		checks, check_total, check_slowest, alert_ids, trail, ended_at)
	SELECT ended.*, now() FROM ended
)`
}

func (m *moveColumns) all() []*column { return append(m.checkColumns.all(), &m.next, &m.undecided) }

// updateSQL continues the jobs of the decisions.
func (m *moveColumns) updateSQL(rows string) string {
	trail := ``
	if !m.trail.none {
		trail = `, trail = ` + trailWith("f.trail", "decision.trail", findInPostgres)
	}
	return `moved AS (
	UPDATE future_job f SET rev = f.rev + 1, next_check_at = ` + m.next.of("decision") + `, undecided = ` + m.undecided.of("decision") + `,
		check_count = ` + m.checkCount.of("decision") + `, step = ` + m.step.of("decision") + `, picked_at = ` + m.picked.of("decision") + `, started_at = ` + m.started.of("decision") + `,
		completed_at = ` + m.completed.of("decision") + `, failed_at = ` + m.failed.of("decision") + `, checks = ` + m.checks.of("decision") + `,
		check_total = decision.check_total, check_slowest = coalesce(` + m.slowest.of("decision") + `, decision.check_total), alert_ids = ` + m.alertIDs.of("decision") + trail + `
	FROM ` + rows + `
	WHERE f.shard = decision.shard AND f.id = decision.id AND f.rev = ` + m.rev.of("decision") + `
	RETURNING f.shard, f.id, f.rule_id, f.version, f.key, f.since_at, f.completed_at
)`
}

func (s *alertInsertColumns) all() []*column {
	return []*column{&s.jobID, &s.id, &s.status, &s.severity, &s.decidedAt, &s.since, &s.checkCount, &s.detail}
}

// insertAlertsSQL inserts the alerts of the jobs in a table.
func (s *alertInsertColumns) insertAlertsSQL(done string) (text string, args []any) {
	if s.id.n == 0 {
		return "", nil
	}
	rows, args := table("raised", s.all())
	since, decided := `raised.since_at`, `raised.decided_at`
	if s.since.none {
		since = `job.since_at`
	}
	if s.decidedAt.none {
		decided = `job.completed_at`
	}
	conflict := ``
	if s.repeats {
		conflict = `
	ON CONFLICT DO NOTHING`
	}
	return `, raised AS (
	INSERT INTO alert (shard, id, rule_id, version, status, severity, key, decided_at, since_at, check_count, detail)
	SELECT job.shard, raised.id, job.rule_id, job.version, ` + s.status.of("raised") + `, ` + s.severity.of("raised") + `, job.key,
		` + decided + `, ` + since + `, ` + s.checkCount.of("raised") + `, raised.detail
	FROM ` + rows + `
	JOIN ` + done + ` AS job ON job.id = raised.job_id` + conflict + `
	RETURNING shard, id
), posted AS (
	INSERT INTO alert_outbox (shard, at, first_id, ids)
	SELECT shard, clock_timestamp(), encode(substr(ids, from_byte, 16), 'hex')::uuid, substr(ids, from_byte, ` + rowBytes + `)
	FROM (SELECT shard, string_agg(uuid_send(id), '' ORDER BY id) AS ids FROM raised GROUP BY shard) AS of_shard,
		generate_series(1, length(ids), ` + rowBytes + `) AS part (from_byte)
), announced AS (
	INSERT INTO alert_news (shard, id) SELECT shard, id FROM raised WHERE ` + notifying + `
)`, args
}

// columnPool has columns for reuse: new ones for each batch were a third of the garbage of a sweep.
var columnPool = sync.Pool{New: func() any {
	return &settleColumns{
		ends:  endColumns{checkColumns: newCheckColumns(), outcome: texts.named("outcome"), reason: texts.named("reason")},
		moves: moveColumns{checkColumns: newCheckColumns(), next: timestamptzs.named("next_check_at"), undecided: ints.named("undecided")},
		alerts: alertInsertColumns{
			jobID: bigints.named("job_id"), id: uuids.named("id"), status: smallints.named("status"), severity: smallints.named("severity"),
			decidedAt: timestamptzs.named("decided_at"), since: timestamptzs.named("since_at"),
			checkCount: ints.named("check_count"), detail: texts.named("detail"),
		},
	}
}}

// columnsOf encodes decisions as columns; free returns them to the pool once they are sent.
func columnsOf(decisions []*futurejobs.Decision) (_ *settleColumns, free func(), err error) {
	c := columnPool.Get().(*settleColumns) //nolint:forcetypeassert // nothing else is put there
	free = func() { c.empty(); columnPool.Put(c) }
	atCheckEnd := true // all alerts were decided at the end of their job's check
	for _, d := range inOrder(decisions) {
		c.add(d)
		for i := range d.Alerts {
			alert := &d.Alerts[i]
			if err := c.addAlert(d.Job.ID, alert); err != nil {
				return nil, free, err
			}
			atCheckEnd = atCheckEnd && alert.DecidedAt.Equal(d.Job.Last.CompletedAt)
		}
	}
	sendOnce(c.ends.counters()...)
	sendOnce(&c.ends.outcome)
	sendOnce(&c.ends.picked)
	sendOnce(&c.moves.picked)
	sendOnce(&c.moves.next)
	dropEmpty(&c.ends.failed, &c.ends.reason)
	dropEmpty(&c.moves.failed)
	for _, table := range []*checkColumns{&c.ends.checkColumns, &c.moves.checkColumns} {
		dropEmpty(&table.slowest)
		dropEmpty(&table.alertIDs)
		dropEmpty(&table.trail)
	}
	sendOnce(append(c.moves.counters(), &c.moves.undecided)...)
	c.alerts.decidedAt.none = atCheckEnd
	sendOnce(&c.alerts.status, &c.alerts.severity, &c.alerts.checkCount)
	return c, free, nil
}

func (c *settleColumns) empty() {
	for _, table := range [][]*column{c.ends.all(), c.moves.all(), c.alerts.all()} {
		for _, column := range table {
			column.empty()
			column.once, column.none = false, false
		}
	}
	c.alerts.repeats = false
}

func (c *settleColumns) add(d *futurejobs.Decision) {
	if d.Ends() {
		c.ends.add(&d.Job)
		c.ends.outcome.text(string(d.Outcome))
		c.ends.reason.optional(d.Reason)
		return
	}
	c.moves.add(&d.Job)
	c.moves.next.instant(d.Job.NextCheckAt)
	c.moves.undecided.int32(int32(d.Job.UndeterminedChecks)) //nolint:gosec // counts checks
}

//nolint:gosec // checks and steps are counted in int32
func (l *checkColumns) add(j *futurejobs.Job) {
	l.shard.int16(j.Shard)
	l.id.int64(j.ID)
	l.rev.int32(j.Rev)
	l.checkCount.int32(int32(j.CheckCount))
	l.step.int32(int32(j.Step))
	l.checks.int32(int32(j.CheckAttempts))
	l.picked.time(j.Last.PickedAt)
	l.started.time(j.Last.StartedAt)
	l.completed.time(j.Last.CompletedAt)
	l.failed.time(j.Last.FailedAt)
	l.total.int64(j.CheckTotal.Microseconds())
	if total, slowest := j.CheckTotal.Microseconds(), j.CheckSlowest.Microseconds(); slowest == total {
		l.slowest.null() // as of all jobs with a single check
	} else {
		l.slowest.int64(slowest)
	}
	l.alertIDs.ids(j.Alerts)
	l.trail.optional(string(j.Trail))
}

func (c *settleColumns) addAlert(job int64, a *alerts.Alert) (err error) {
	if c.document, err = detail(a, c.document); err != nil {
		return err
	}
	s := &c.alerts
	s.jobID.int64(job)
	s.id.bytes(a.ID[:])
	s.status.int16(a.Status.Number())
	s.severity.int16(a.Severity.Number())
	s.decidedAt.instant(a.DecidedAt)
	s.since.instant(a.Since)
	s.checkCount.int32(int32(a.CheckCount)) //nolint:gosec // counts checks
	s.detail.bytes(c.document)
	return nil
}

// settleSQL returns the statement of a settlement and its parameters. It omits parts without work.
func (c *settleColumns) settleSQL(ruleSet int64, rules []int32, shards []int16, epochs []int64) (text string, args []any) {
	text, args = fenceCTE, []any{ruleSet, rules, ruleSet, shards, epochs, len(rules)}
	over, on := c.ends.id.n > 0, c.moves.id.n > 0
	if over {
		rows, arrays := table("decision", c.ends.all())
		text, args = text+`, `+c.ends.deleteSQL(`(`+rows+joinHeld+`)`), append(args, arrays...)
	}
	if on {
		rows, arrays := table("decision", c.moves.all())
		text, args = text+`, `+c.moves.updateSQL(`(`+rows+joinHeld+`)`), append(args, arrays...)
	}
	done := "ended"
	switch {
	case over && on:
		text, done = text+unionCTE, "done"
	case on:
		done = "moved"
	}
	c.alerts.since.none = true // unchanged jobs have the since_at that was read
	insert, alertArgs := c.alerts.insertAlertsSQL(done)
	return rebindPlaceholders(text + insert + resultSQL + done + `)`), withSizeHint(append(args, alertArgs...))
}

// endSQL returns the statement that ends locked jobs, and its parameters. Locked jobs need no fence.
func (c *settleColumns) endSQL() (text string, args []any) {
	rows, args := table("decision", c.ends.all())
	insert, alertArgs := c.alerts.insertAlertsSQL("ended")
	return rebindPlaceholders(`WITH ` + c.ends.deleteSQL(rows) + insert + ` SELECT count(*) FROM ended`), append(args, alertArgs...)
}

// of returns the expression that reads the column of a table in a statement.
func (c *column) of(table string) string {
	switch {
	case c.none:
		return `NULL::` + c.kind.name
	case c.once:
		return table + `_once.` + c.name
	}
	return table + `.` + c.name
}

// sendOnce sends columns once, instead of for each row, if they are the same in all rows, as they are for most of a
// rule's jobs: each array costs the server about 80 ns per row. It applies to all of the columns or none, since each
// combination is a statement of its own.
func sendOnce(columns ...*column) {
	once := !slices.ContainsFunc(columns, func(c *column) bool { return !c.same() })
	for _, c := range columns {
		c.once = once
	}
}

// dropEmpty omits columns without a value in any row: all of them or none, for the same reason.
func dropEmpty(columns ...*column) {
	none := !slices.ContainsFunc(columns, func(c *column) bool { return c.values > 0 })
	for _, c := range columns {
		c.none = none
	}
}

// table returns columns as a named table of a statement, and its parameters.
func table(name string, columns []*column) (text string, args []any) {
	var arrays, names, values []string
	var once []any
	for _, c := range columns {
		switch {
		case c.none:
		case c.once:
			values, once = append(values, "?::"+c.kind.name+" AS "+c.name), append(once, c.first())
		default:
			arrays, names, args = append(arrays, "?::"+c.kind.name+"[]"), append(names, c.name), append(args, &c.arrayEncoder)
		}
	}
	text = `unnest(` + strings.Join(arrays, `, `) + `) AS ` + name + ` (` + strings.Join(names, `, `) + `)`
	if len(once) > 0 {
		text += ` CROSS JOIN (SELECT ` + strings.Join(values, `, `) + `) AS ` + name + `_once`
	}
	return text, append(args, once...)
}
