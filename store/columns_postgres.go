package store

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// columns are decisions as arrays, in the order in which rows are locked: the jobs that end, those that
// go on, and what is said of both. What pgx knows no array of is a FlatArray, or it would look at each
// value by reflection.
type columns struct {
	ends struct {
		looked
		outcome []string
		reason  column[*string]
	}
	moves struct {
		looked
		next      []time.Time
		undecided []int32
	}
	said saidColumns
}

type saidColumns struct {
	jobID            []int64
	id               pgtype.FlatArray[[16]byte]
	status, severity []int16
	decidedAt, since []time.Time
	checkCount       []int32
	detail           []string
}

// looked is what a look changes of jobs.
type looked struct {
	shard                      []int16
	id                         []int64
	rev                        []int32
	checkCount, step, checks   []int32
	picked, started, completed pgtype.FlatArray[pgtype.Timestamptz]
	failed                     column[pgtype.Timestamptz]
	total, slowest             []int64 // µs
	alertIDs                   column[[]byte]
	trail                      column[*string] // what is new of it
}

// column is an array of which it is known whether it has a value: one that has none is not sent.
type column[T any] struct {
	values pgtype.FlatArray[T]
	has    bool
}

func (c *column[T]) add(v T, is bool) {
	c.values = append(c.values, v)
	c.has = c.has || is
}

func columnsOf(decisions []futurejobs.Decision) (*columns, error) {
	c, ends, said := &columns{}, 0, 0
	for i := range decisions {
		if decisions[i].Ends() {
			ends++
		}
		said += len(decisions[i].Alerts)
	}
	c.ends.grow(ends)
	c.ends.outcome, c.ends.reason.values = make([]string, 0, ends), make([]*string, 0, ends)
	c.moves.grow(len(decisions) - ends)
	c.said.grow(said)
	for _, d := range inOrder(decisions) {
		c.add(d)
		for i := range d.Alerts {
			if err := c.said.add(d.Job.ID, &d.Alerts[i]); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

func (c *columns) add(d *futurejobs.Decision) {
	if d.Ends() {
		c.ends.add(&d.Job)
		c.ends.outcome = append(c.ends.outcome, string(d.Outcome))
		c.ends.reason.add(optional(d.Reason), d.Reason != "")
		return
	}
	c.moves.add(&d.Job)
	c.moves.next = append(c.moves.next, d.Job.NextCheckAt)
	c.moves.undecided = append(c.moves.undecided, int32(d.Job.Undecided))
}

func (l *looked) grow(n int) {
	l.shard, l.id, l.rev = make([]int16, 0, n), make([]int64, 0, n), make([]int32, 0, n)
	l.checkCount, l.step, l.checks = make([]int32, 0, n), make([]int32, 0, n), make([]int32, 0, n)
	l.picked, l.started, l.completed = make([]pgtype.Timestamptz, 0, n), make([]pgtype.Timestamptz, 0, n), make([]pgtype.Timestamptz, 0, n)
	l.failed.values, l.total, l.slowest = make([]pgtype.Timestamptz, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	l.alertIDs.values, l.trail.values = make([][]byte, 0, n), make([]*string, 0, n)
}

func (l *looked) add(j *futurejobs.Job) {
	l.shard = append(l.shard, j.Shard)
	l.id = append(l.id, j.ID)
	l.rev = append(l.rev, j.Rev)
	l.checkCount = append(l.checkCount, int32(j.CheckCount))
	l.step = append(l.step, int32(j.Step))
	l.checks = append(l.checks, int32(j.Checks))
	l.picked = append(l.picked, stamp(j.Last.PickedAt))
	l.started = append(l.started, stamp(j.Last.StartedAt))
	l.completed = append(l.completed, stamp(j.Last.CompletedAt))
	l.failed.add(stamp(j.Last.FailedAt), !j.Last.FailedAt.IsZero())
	l.total = append(l.total, j.CheckTotal.Microseconds())
	l.slowest = append(l.slowest, j.CheckSlowest.Microseconds())
	l.alertIDs.add(packed(j.Alerts), len(j.Alerts) > 0)
	l.trail.add(optional(string(j.Trail)), j.Trail != "")
}

func (s *saidColumns) grow(n int) {
	s.jobID, s.id = make([]int64, 0, n), make([][16]byte, 0, n)
	s.status, s.severity = make([]int16, 0, n), make([]int16, 0, n)
	s.decidedAt, s.since = make([]time.Time, 0, n), make([]time.Time, 0, n)
	s.checkCount, s.detail = make([]int32, 0, n), make([]string, 0, n)
}

func (s *saidColumns) add(job int64, a *alerts.Alert) error {
	text, err := detail(a)
	if err != nil {
		return err
	}
	s.jobID = append(s.jobID, job)
	s.id = append(s.id, a.ID)
	s.status = append(s.status, a.Status.Number())
	s.severity = append(s.severity, a.Severity.Number())
	s.decidedAt = append(s.decidedAt, a.DecidedAt)
	s.since = append(s.since, a.Since)
	s.checkCount = append(s.checkCount, int32(a.CheckCount))
	s.detail = append(s.detail, text)
	return nil
}

// rows are columns as a statement reads them: a table of arrays.
type rows struct {
	arrays, names []string
	args          []any
}

func (r *rows) add(name, kind string, array any) {
	r.arrays, r.names, r.args = append(r.arrays, "?::"+kind+"[]"), append(r.names, name), append(r.args, array)
}

// as is the table under a name.
func (r *rows) as(name string) string {
	return `unnest(` + strings.Join(r.arrays, `, `) + `) AS ` + name + ` (` + strings.Join(r.names, `, `) + `)`
}

// addOptional adds a column that has a value.
func addOptional[T any](r *rows, name, kind string, c column[T]) {
	if c.has {
		r.add(name, kind, c.values)
	}
}

// or is the column of the table ask, or another value where it has none.
func (c column[T]) or(column, other string) string {
	if c.has {
		return `ask.` + column
	}
	return other
}

func (l *looked) rows() rows {
	var r rows
	r.add("shard", "smallint", l.shard)
	r.add("id", "bigint", l.id)
	r.add("rev", "int", l.rev)
	r.add("check_count", "int", l.checkCount)
	r.add("step", "int", l.step)
	r.add("checks", "int", l.checks)
	r.add("picked_at", "timestamptz", l.picked)
	r.add("started_at", "timestamptz", l.started)
	r.add("completed_at", "timestamptz", l.completed)
	addOptional(&r, "failed_at", "timestamptz", l.failed)
	r.add("check_total", "bigint", l.total)
	r.add("check_slowest", "bigint", l.slowest)
	addOptional(&r, "alert_ids", "bytea", l.alertIDs)
	addOptional(&r, "trail", "text", l.trail)
	return r
}

func (c *columns) ending() rows {
	r := c.ends.rows()
	r.add("outcome", "text", c.ends.outcome)
	addOptional(&r, "reason", "text", c.ends.reason)
	return r
}

func (c *columns) moving() rows {
	r := c.moves.rows()
	r.add("next_check_at", "timestamptz", c.moves.next)
	r.add("undecided", "int", c.moves.undecided)
	return r
}

func (s *saidColumns) rows() rows {
	var r rows
	r.add("job_id", "bigint", s.jobID)
	r.add("id", "uuid", s.id)
	r.add("status", "smallint", s.status)
	r.add("severity", "smallint", s.severity)
	r.add("decided_at", "timestamptz", s.decidedAt)
	r.add("since_at", "timestamptz", s.since)
	r.add("check_count", "int", s.checkCount)
	r.add("detail", "text", s.detail)
	return r
}
