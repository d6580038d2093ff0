package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
)

// The due times of pending jobs: they are spread over pendsSpread, starting pendsAfter from now. A job due earlier
// belongs to a round, regardless of the duration of the measurement.
const (
	pendsAfter  = 7 * futurejobs.Day
	pendsSpread = 7 * futurejobs.Day
)

// laterBegins returns the time of the first pending job for a database created at now.
func laterBegins(now time.Time) time.Time { return now.Truncate(time.Minute).Add(pendsAfter) }

// shards is the number of shards of a measured database.
const shards = 16

// database is a database to measure.
type database interface {
	workload
	walMeter

	// options returns the options with which a node opens the database.
	options() store.Options
	// store opens the database as a node does.
	store(ctx context.Context) (*store.Store, error)
	// run runs statements.
	run(ctx context.Context, statements ...string) error
	// now returns the database's time.
	now(ctx context.Context) (time.Time, error)
	// openOldSnapshot keeps the database from removing old row versions, until release.
	openOldSnapshot(ctx context.Context) (release func(context.Context) error, err error)
	// close deletes what the benchmark created.
	close(ctx context.Context) error
}

// workload creates the jobs of a round, and does and verifies the work on them.
type workload interface {
	// pend inserts the jobs that stay pending beside a round, once.
	pend(ctx context.Context, o Options) error
	// pends returns an error unless those jobs are still pending.
	pends(ctx context.Context) error
	// clear deletes everything but the jobs of pend.
	clear(ctx context.Context) error
	// fill inserts jobs of a shape. They have been due for a minute, or will be after ahead.
	fill(ctx context.Context, shape Shape, jobs int, ahead time.Duration) error
	// insert inserts new jobs with bare SQL, in one transaction.
	insert(ctx context.Context, rows *bareRows) error
	// bare does the work of a shape in SQL, without the engine.
	bare(ctx context.Context, shape Shape) error
	// check returns an error unless the work of a shape was done once for each job, and the number of bytes of text
	// that were written for it.
	check(ctx context.Context, shape Shape, jobs int) (bytes int64, err error)
	// made returns an error unless that many jobs of a round are pending, and the number of bytes of their text.
	createdBytes(ctx context.Context, jobs int) (bytes int64, err error)
}

// walMeter measures the write-ahead log of a database.
type walMeter interface {
	// written returns the bytes written to the log; 0: the database does not report them.
	written(ctx context.Context) (int64, error)
	// fullPageImages returns the number of whole pages in the log, as far as reported; 0: the database does not
	// report them.
	fullPageImages(ctx context.Context) (int64, error)
	// vacuumAndCheckpoint removes old row versions and writes a checkpoint.
	vacuumAndCheckpoint(ctx context.Context) error
}

// Document is the rule of jobs that finish: a condition over the body and one step, after which the job ends. Each job
// decodes its body and writes one history row and one alert.
const Document = `
name: bench
entity: order
trigger: {event: bench.created, key: event.order_id}
while: event.status == "UNSHIPPED" && event.total >= 0
escalate:
  - {after: 1s, step: primary, severity: warning, text: "order {{key}} is not shipped"}
slot: 1s
labels: {team: fulfilment}
`

// laterDocument is the rule of jobs that are checked before their step is due.
const laterDocument = `
name: bench-later
entity: order
trigger: {event: bench.created, key: event.order_id}
while: event.status == "UNSHIPPED" && event.total >= 0
escalate:
  - {after: 1h, step: primary, severity: warning, text: "order {{key}} is not shipped"}
slot: 1s
labels: {team: fulfilment}
`

// open creates the database with the rules of all shapes.
func open(ctx context.Context, o Options) (database, error) {
	var g database = &sqliteDB{dir: o.Dir, pendingFrom: laterBegins(time.Now())}
	if o.DatabaseURL != "" {
		p, err := openPostgres(ctx, o.DatabaseURL)
		if err != nil {
			return nil, err
		}
		g = p
	}
	if err := saveRules(ctx, g); err != nil {
		return nil, errors.Join(err, g.close(context.WithoutCancel(ctx)))
	}
	return g, nil
}

func saveRules(ctx context.Context, g database) error {
	s, err := g.store(ctx)
	if err != nil {
		return err
	}
	for _, document := range []string{Document, laterDocument} {
		if err := saveRule(ctx, s, document); err != nil {
			_ = s.Close() // the first error is returned
			return err
		}
	}
	return s.Close()
}

// storeOptions returns the options of a store that does not log.
func storeOptions() store.Options {
	return store.Options{Shards: shards, Log: slog.New(slog.DiscardHandler)}
}

// tableCounts are the numbers of rows in the tables.
type tableCounts struct {
	left, later    int // jobs, and those of them that are due later
	ended          int
	alerts, unsent int
	bytes          int64 // of the alerts' documents and the trails
}

// counted returns a query that counts the rows of either database, without the other pending jobs. ofRounds is the
// condition for jobs of a round.
func counted(now, next, ofRounds string) string {
	return `SELECT (SELECT count(*) FROM future_job WHERE ` + ofRounds + `), (SELECT count(*) FROM future_job WHERE ` + ofRounds + ` AND ` + next + ` > ` + now + `),
	(SELECT count(*) FROM history), (SELECT count(*) FROM alert), (SELECT coalesce(sum(length(ids)), 0) / 16 FROM alert_outbox),
	(SELECT coalesce(sum(length(detail)), 0) FROM alert) + (SELECT coalesce(sum(length(trail)), 0) FROM future_job WHERE ` + ofRounds + `)`
}

func (d *tableCounts) fields() []any {
	return []any{&d.left, &d.later, &d.ended, &d.alerts, &d.unsent, &d.bytes}
}

// was checks that the counts are those after the work of a shape.
func (d tableCounts) was(shape Shape, jobs int) error {
	ends := shape.ends(jobs)
	if d.left != jobs-ends || d.later != d.left || d.ended != ends || d.alerts != ends || d.unsent != ends {
		return fmt.Errorf("%d jobs are left, %d of them for later, %d ended, %d alerts were raised and %d are unpublished; want %d, %[6]d and %d each",
			d.left, d.later, d.ended, d.alerts, d.unsent, jobs-ends, ends)
	}
	return nil
}

// allPend checks that all other pending jobs still exist: otherwise the measurement is invalid.
func allPend(got, want int) error {
	if got != want {
		return fmt.Errorf("%d of the pending jobs are left, want %d; the measurement is invalid", got, want)
	}
	return nil
}
