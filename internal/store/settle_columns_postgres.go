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
	said     alertInsertColumns
	document []byte // the document of the current alert
}

// lookColumns are the job columns that a check changes. Durations are in µs; the slowest check is NULL if it equals
// the total. trail is the new entry.
type lookColumns struct {
	shard, id, rev                     column
	checkCount, step, checks           column
	picked, started, completed, failed column
	total, slowest                     column
	alertIDs, trail                    column
}

type endColumns struct {
	lookColumns
	outcome, reason column
}

type moveColumns struct {
	lookColumns
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

func (k elementType) named(name string) column {
	return column{arrayEncoder: arrayEncoder{kind: k}, name: name}
}

func newLookColumns() lookColumns {
	return lookColumns{
		shard: smallints.named("shard"), id: bigints.named("id"), rev: ints.named("rev"),
		checkCount: ints.named("check_count"), step: ints.named("step"), checks: ints.named("checks"),
		picked: timestamptzs.named("picked_at"), started: timestamptzs.named("started_at"),
		completed: timestamptzs.named("completed_at"), failed: timestamptzs.named("failed_at"),
		total: bigints.named("check_total"), slowest: bigints.named("check_slowest"),
		alertIDs: byteas.named("alert_ids"), trail: texts.named("trail"),
	}
}

func (l *lookColumns) all() []*column {
	return []*column{
		&l.shard, &l.id, &l.rev, &l.checkCount, &l.step, &l.checks, &l.picked, &l.started, &l.completed, &l.failed,
		&l.total, &l.slowest, &l.alertIDs, &l.trail,
	}
}

// counters returns the columns that jobs which started together have in common.
func (l *lookColumns) counters() []*column {
	return []*column{&l.rev, &l.checkCount, &l.step, &l.checks}
}

func (e *endColumns) all() []*column { return append(e.lookColumns.all(), &e.outcome, &e.reason) }

func (m *moveColumns) all() []*column { return append(m.lookColumns.all(), &m.next, &m.undecided) }

func (s *alertInsertColumns) all() []*column {
	return []*column{&s.jobID, &s.id, &s.status, &s.severity, &s.decidedAt, &s.since, &s.checkCount, &s.detail}
}

// columnPool has columns for reuse: new ones for each batch were a third of the garbage of a sweep.
var columnPool = sync.Pool{New: func() any {
	return &settleColumns{
		ends:  endColumns{lookColumns: newLookColumns(), outcome: texts.named("outcome"), reason: texts.named("reason")},
		moves: moveColumns{lookColumns: newLookColumns(), next: timestamptzs.named("next_check_at"), undecided: ints.named("undecided")},
		said: alertInsertColumns{
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
	looked := true // all alerts were decided at the end of their job's check
	for _, d := range inOrder(decisions) {
		c.add(d)
		for i := range d.Alerts {
			said := &d.Alerts[i]
			if err := c.addAlert(d.Job.ID, said); err != nil {
				return nil, free, err
			}
			looked = looked && said.DecidedAt.Equal(d.Job.Last.CompletedAt)
		}
	}
	sendOnce(c.ends.counters()...)
	sendOnce(&c.ends.outcome)
	sendOnce(&c.ends.picked)
	sendOnce(&c.moves.picked)
	sendOnce(&c.moves.next)
	dropEmpty(&c.ends.failed, &c.ends.reason)
	dropEmpty(&c.moves.failed)
	for _, looks := range []*lookColumns{&c.ends.lookColumns, &c.moves.lookColumns} {
		dropEmpty(&looks.slowest)
		dropEmpty(&looks.alertIDs)
		dropEmpty(&looks.trail)
	}
	sendOnce(append(c.moves.counters(), &c.moves.undecided)...)
	c.said.decidedAt.none = looked
	sendOnce(&c.said.status, &c.said.severity, &c.said.checkCount)
	return c, free, nil
}

func (c *settleColumns) empty() {
	for _, table := range [][]*column{c.ends.all(), c.moves.all(), c.said.all()} {
		for _, column := range table {
			column.empty()
			column.once, column.none = false, false
		}
	}
	c.said.repeats = false
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
	c.moves.undecided.int32(int32(d.Job.Undecided)) //nolint:gosec // counts looks
}

//nolint:gosec // looks and steps are counted in int32
func (l *lookColumns) add(j *futurejobs.Job) {
	l.shard.int16(j.Shard)
	l.id.int64(j.ID)
	l.rev.int32(j.Rev)
	l.checkCount.int32(int32(j.CheckCount))
	l.step.int32(int32(j.Step))
	l.checks.int32(int32(j.Checks))
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
	s := &c.said
	s.jobID.int64(job)
	s.id.bytes(a.ID[:])
	s.status.int16(a.Status.Number())
	s.severity.int16(a.Severity.Number())
	s.decidedAt.instant(a.DecidedAt)
	s.since.instant(a.Since)
	s.checkCount.int32(int32(a.CheckCount)) //nolint:gosec // counts looks
	s.detail.bytes(c.document)
	return nil
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
