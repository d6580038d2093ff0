package store

import (
	"strconv"
	"strings"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// jobColumns are the columns that readJob reads, of the table or alias f.
const jobColumns = dueColumns + `, f.picked_at, f.started_at, f.completed_at, f.failed_at, f.ordering`

func jobFields(j *futurejobs.Job) []any {
	return append(dueFields(j), at(&j.Last.PickedAt), at(&j.Last.StartedAt), at(&j.Last.CompletedAt), at(&j.Last.FailedAt), asJSON[*futurejobs.Order]{&j.Order})
}

// dueColumns are jobColumns except for the times of the last check, which the next check overwrites, and the order of
// events, which no check needs.
const dueColumns = `f.shard, f.id, f.rev, f.rule_id, f.version, f.key,
	f.created_at, f.since_at, f.first_check_at, f.next_check_at,
	f.check_count, f.undecided, f.step, f.event, f.state, f.alert_ids, f.checks, f.check_total, f.check_slowest,
	f.pauses, f.paused_next_at, f.members, f.acked_until, f.snoozed_until, f.origin`

// dueBytes is the expression for the size of a job f's bodies in dueColumns, as futurejobs.Job.Size counts them. The
// database knows the length of a cell without reading it.
const dueBytes = `octet_length(coalesce(f.event, '')) + octet_length(coalesce(f.state, '')) + octet_length(coalesce(f.members, ''))`

// jobBytes is dueBytes for a job f of jobColumns.
const jobBytes = dueBytes + ` + octet_length(coalesce(f.ordering, ''))`

func dueFields(j *futurejobs.Job) []any {
	return []any{
		&j.Shard, &j.ID, &j.Rev, &j.RuleID, &j.Version, (*escapedText)(&j.Key),
		at(&j.CreatedAt), at(&j.Since), at(&j.FirstCheckAt), at(&j.NextCheckAt),
		&j.CheckCount, &j.UndeterminedChecks, &j.Step, (*[]byte)(&j.Event), (*[]byte)(&j.State), (*idList)(&j.Alerts),
		&j.CheckAttempts, (*micros)(&j.CheckTotal), (*micros)(&j.CheckSlowest),
		(*pauseList)(&j.Pauses), at(&j.PausedNext), (*[]byte)(&j.Members), at(&j.AckedUntil), at(&j.SnoozedUntil),
		(*origin)(&j.Origin),
	}
}

func readJob(row scanner, j *futurejobs.Job) error { return row.Scan(jobFields(j)...) }

// besideJob are the columns that readWhole reads after jobColumns, of the rule r and the acknowledgement k of a job f.
const besideJob = `, r.name, r.entity, ` + ackColumns

// The columns that readWhole reads. A job has up to 1 MiB in its bodies, and a page has many jobs.
var (
	// listedColumns are those of a job in a list, without a trail. The shards together have many more jobs than a page.
	listedColumns = jobsUpTo(2<<10) + `, ''`

	// keyColumns are those of a job in the list of one key.
	keyColumns = jobsUpTo(futurejobs.ListedMost) + `, coalesce(f.trail, '')`

	// wholeColumns are those of one job.
	wholeColumns = jobColumns + besideJob + `, FALSE, coalesce(f.trail, '')`
)

// jobsUpTo returns jobColumns without the bodies of jobs that exceed limit bytes in total, and a column that is true for
// those jobs.
func jobsUpTo(limit int) string {
	small := jobBytes + ` <= ` + strconv.Itoa(limit)
	var replace []string
	for _, body := range []string{`f.event`, `f.state`, `f.members`, `f.ordering`} {
		replace = append(replace, body, `CASE WHEN `+small+` THEN `+body+` END`)
	}
	return strings.NewReplacer(replace...).Replace(jobColumns) + besideJob + `, NOT (` + small + `)`
}

func readWhole(row scanner, l *futurejobs.ListedJob) error {
	var k readAck
	fields := append(append(jobFields(&l.Job), &l.Rule, &l.Entity), k.fields()...)
	if err := row.Scan(append(fields, &l.Omitted, (*string)(&l.Trail))...); err != nil {
		return err
	}
	l.Ack = k.ack()
	return nil
}

// endedColumns are the columns that readEnded reads, of the history f and its rule r.
const endedColumns = `f.shard, f.id, f.rule_id, f.version, f.key,
	f.created_at, f.since_at, f.first_check_at, f.next_check_at, f.check_count, f.step, f.alert_ids,
	f.picked_at, f.started_at, f.completed_at, f.failed_at, f.checks, f.check_total, coalesce(f.check_slowest, f.check_total),
	r.name, r.entity, f.outcome, f.reason, f.ended_at`

func endedFields(e *futurejobs.EndedJob, reason **string) []any {
	j := &e.Job
	return []any{
		&j.Shard, &j.ID, &j.RuleID, &j.Version, (*escapedText)(&j.Key),
		at(&j.CreatedAt), at(&j.Since), at(&j.FirstCheckAt), at(&j.NextCheckAt),
		&j.CheckCount, &j.Step, (*idList)(&j.Alerts),
		at(&j.Last.PickedAt), at(&j.Last.StartedAt), at(&j.Last.CompletedAt), at(&j.Last.FailedAt),
		&j.CheckAttempts, (*micros)(&j.CheckTotal), (*micros)(&j.CheckSlowest),
		&e.Rule, &e.Entity, (*string)(&e.Outcome), reason, at(&e.EndedAt),
	}
}

func readEnded(row scanner, e *futurejobs.EndedJob) error {
	var reason *string
	if err := row.Scan(endedFields(e, &reason)...); err != nil {
		return err
	}
	if reason != nil {
		e.Reason = *reason
	}
	return nil
}

// wholeEndedColumns are the columns that readWholeEnded reads, with the trail.
const wholeEndedColumns = endedColumns + `, coalesce(f.trail, '')`

func readWholeEnded(row scanner, e *futurejobs.EndedJob) error {
	var reason *string
	if err := row.Scan(append(endedFields(e, &reason), (*string)(&e.Trail))...); err != nil {
		return err
	}
	if reason != nil {
		e.Reason = *reason
	}
	return nil
}

// alertColumns are the columns that readAlert reads, of the alert a and its rule r.
const alertColumns = alertCells + `, a.detail, r.name, r.entity`

// alertHeads are alertColumns without the document, since a list does not know the size of documents beforehand.
const alertHeads = alertCells + `, '{}', r.name, r.entity`

const alertCells = `a.shard, a.id, a.rule_id, a.version, a.status, a.severity, a.key, a.decided_at, a.since_at, a.check_count`

// alertRow is an alert as it is stored.
type alertRow struct {
	*alerts.Alert
	status, severity int16
	detail           string
}

func (s *alertRow) fields() []any {
	return []any{
		&s.Shard, &s.ID, &s.RuleID, &s.RuleVersion, &s.status, &s.severity, (*escapedText)(&s.Key), at(&s.DecidedAt), at(&s.Since),
		&s.CheckCount, &s.detail, &s.Rule, &s.Entity,
	}
}

// read sets the alert from the scanned fields.
func (s *alertRow) read() error {
	s.Status, s.Severity = alerts.StatusOf(s.status), alerts.SeverityOf(s.severity)
	return s.Read([]byte(s.detail))
}

// inList returns a list of numbers for IN. The list must not be empty.
func inList[T ~int16 | ~int32 | ~int64](numbers []T) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, n := range numbers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(itoa(n))
	}
	b.WriteByte(')')
	return b.String()
}

// hasExtras reports whether a new job has rare columns: a state, a pause, members, an order of events, or skipped steps.
func hasExtras(j *futurejobs.Job) bool {
	return j.Order != nil || j.State != nil || len(j.Pauses) > 0 || !j.PausedNext.IsZero() || j.Members != nil || j.Step > 0
}

// Names of the function that returns the position of a text in another.
const (
	findInPostgres = "strpos"
	findInSQLite   = "instr"
)

// trailWith returns SQL for futurejobs.Trail.With on a trail and one new entry. A NULL entry leaves the trail
// unchanged, and Postgres need not write it again. old and entry are columns or parameters; find is one of the names
// above.
func trailWith(old, added, find string) string {
	return strings.NewReplacer("old", old, "entry", added, "find", find, "most", strconv.Itoa(futurejobs.TrailMost-1), "nl", "'\n'",
		"update", "'%"+futurejobs.UpdateEnds+"'").Replace(
		`CASE WHEN entry IS NULL OR entry LIKE update AND old LIKE update THEN old ELSE coalesce(CASE WHEN length(old) - length(replace(old, nl, '')) < most THEN old
		ELSE substr(old, find(old, nl) + 1) END || nl, '') || entry END`)
}
