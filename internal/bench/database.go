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

// The times of jobs that pend: they are spread over so long, from so far ahead on. What is due before
// is of a round, however long the measuring takes.
const (
	pendsAfter  = 7 * futurejobs.Day
	pendsSpread = 7 * futurejobs.Day
)

// laterBegins is when the first job pends where the ground is made at an instant.
func laterBegins(now time.Time) time.Time { return now.Truncate(time.Minute).Add(pendsAfter) }

// shards is how many shards a measured database has.
const shards = 16

// database is a database to measure on.
type database interface {
	// options are how a node opens the database; store opens it so.
	options() store.Options
	store(ctx context.Context) (*store.Store, error)
	// pend puts in the jobs that wait besides, once.
	pend(ctx context.Context, o Options) error
	// pends reports whether those jobs still wait.
	pends(ctx context.Context) error
	// clear takes away everything but what pends.
	clear(ctx context.Context) error
	// fill puts in jobs of a shape, due since a minute, or so long from now.
	fill(ctx context.Context, shape Shape, jobs int, ahead time.Duration) error
	// bare does the work of a shape with no engine.
	bare(ctx context.Context, shape Shape) error
	// openOldSnapshot keeps the database from forgetting what is gone, until release.
	openOldSnapshot(ctx context.Context) (release func(context.Context) error, err error)
	// now is the database's time.
	now(ctx context.Context) (time.Time, error)
	// written is how many bytes of its log the database has written; 0: it doesn't say.
	written(ctx context.Context) (int64, error)
	// fullPageImages is how many whole pages the database has put into its log, as far as it says so by now;
	// 0: it doesn't say.
	fullPageImages(ctx context.Context) (int64, error)
	// check says whether the work of a shape was done, each job once, and how many bytes of text were
	// written for it.
	check(ctx context.Context, shape Shape, jobs int) (bytes int64, err error)
	// vacuumAndCheckpoint has the database write down what it still has to, and run runs statements.
	vacuumAndCheckpoint(ctx context.Context) error
	run(ctx context.Context, statements ...string) error
	// made says whether so many jobs of a round wait, and how many bytes of text they carry.
	made(ctx context.Context, jobs int) (bytes int64, err error)
	// insert puts in new jobs with bare SQL, in one transaction.
	insert(ctx context.Context, rows *bareRows) error
	// close takes away what was made.
	close(ctx context.Context) error
}

// Document is the rule of jobs that finish: a condition over the body, one step, and then
// the job is over. Each job decodes its body, writes one history row and says one alert.
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

// laterDocument is the rule of jobs that are looked at before their step is due.
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

// open makes the ground, with the rules of all shapes.
func open(ctx context.Context, o Options) (database, error) {
	var g database = &sqliteDB{dir: o.Dir, begins: laterBegins(time.Now())}
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
			_ = s.Close() // what went wrong is what is said
			return err
		}
	}
	return s.Close()
}

// storeOptions are the options of a store that says nothing.
func storeOptions() store.Options {
	return store.Options{Shards: shards, Log: slog.New(slog.DiscardHandler)}
}

// tableCounts is what is in the tables.
type tableCounts struct {
	left, later  int // jobs, and those of them that are due later
	ended        int
	said, unsent int
	bytes        int64 // of the alerts' documents and the trails
}

// counted counts what is in the tables of either database, besides what pends. ofRounds is the condition
// that a job is of a round.
func counted(now, next, ofRounds string) string {
	return `SELECT (SELECT count(*) FROM future_job WHERE ` + ofRounds + `), (SELECT count(*) FROM future_job WHERE ` + ofRounds + ` AND ` + next + ` > ` + now + `),
	(SELECT count(*) FROM history), (SELECT count(*) FROM alert), (SELECT coalesce(sum(length(ids)), 0) / 16 FROM alert_outbox),
	(SELECT coalesce(sum(length(detail)), 0) FROM alert) + (SELECT coalesce(sum(length(trail)), 0) FROM future_job WHERE ` + ofRounds + `)`
}

func (d *tableCounts) fields() []any {
	return []any{&d.left, &d.later, &d.ended, &d.said, &d.unsent, &d.bytes}
}

// was says whether that is what is left of jobs of a shape.
func (d tableCounts) was(shape Shape, jobs int) error {
	ends := shape.ends(jobs)
	if d.left != jobs-ends || d.later != d.left || d.ended != ends || d.said != ends || d.unsent != ends {
		return fmt.Errorf("%d jobs are left, %d of them for later, %d ended, %d alerts were said and %d wait to be published; want %d, %[6]d and %d each",
			d.left, d.later, d.ended, d.said, d.unsent, jobs-ends, ends)
	}
	return nil
}

// allPend says whether as many jobs wait as were put in: beside fewer, nothing was measured.
func allPend(got, want int) error {
	if got != want {
		return fmt.Errorf("%d jobs wait at the end, and %d were put in; what was measured beside them does not count", got, want)
	}
	return nil
}
