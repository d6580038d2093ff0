package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"deadman/internal/store"
)

// schemaPrefix is the prefix of the schemas for measurements; eight hexadecimal digits follow.
const schemaPrefix = "deadman_bench_"

// postgresDB is a schema in the user's Postgres.
type postgresDB struct {
	outside     string // URL without the schema
	inside      string // URL with the schema
	schema      string
	pool        *pgxpool.Pool // with the schema
	pendingFrom time.Time     // time of the first pending job; jobs due earlier belong to a round
	pending     int
	apart       bool // the jobs of a round are scattered among the pending ones
}

func openPostgres(ctx context.Context, database string) (*postgresDB, error) {
	g := &postgresDB{outside: database, schema: schemaPrefix + uuid.NewString()[:8]}
	if _, err := store.Address(addressFlag, database); err != nil {
		return nil, err
	}
	var err error
	if g.inside, err = within(database, g.schema); err != nil {
		return nil, err
	}
	if g.pool, err = pgxpool.New(ctx, g.inside); err != nil { // before the schema is created, which would not be dropped after an error
		return nil, err
	}
	if err := createSchema(ctx, database, g.schema); err != nil {
		g.pool.Close()
		return nil, err
	}
	now, err := g.now(ctx)
	if err != nil {
		return nil, errors.Join(err, g.close(context.WithoutCancel(ctx)))
	}
	g.pendingFrom = laterBegins(now)
	return g, nil
}

// execOutside runs a statement outside of the schema.
func (g *postgresDB) execOutside(ctx context.Context, statement string) error {
	conn, err := connect(ctx, g.outside)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statement has ended already
	_, err = conn.Exec(ctx, statement)
	return err
}

func (g *postgresDB) options() store.Options {
	o := storeOptions()
	o.DatabaseURL, o.URLName = g.inside, addressFlag
	return o
}

func (g *postgresDB) store(ctx context.Context) (*store.Store, error) {
	return store.Open(ctx, g.options())
}

func (g *postgresDB) close(ctx context.Context) error {
	g.pool.Close()
	if err := g.execOutside(ctx, `DROP SCHEMA `+g.schema+` CASCADE`); err != nil {
		return leftError{g.schema, err}
	}
	return nil
}

func (g *postgresDB) now(ctx context.Context) (now time.Time, err error) {
	err = g.pool.QueryRow(ctx, `SELECT now()`).Scan(&now)
	return now, err
}

func (g *postgresDB) written(ctx context.Context) (int64, error) { return written(ctx, g.pool) }

// ofRounds returns the condition for jobs of a round.
func (g *postgresDB) ofRounds() string {
	return fmt.Sprintf(`shard = ANY (ARRAY(SELECT generate_series(0, %d)::smallint)) AND next_check_at < '%s'`, shards-1, g.pendingFrom.UTC().Format(time.RFC3339))
}

// clear also removes deleted rows from the indexes, so that the rounds are alike.
func (g *postgresDB) clear(ctx context.Context) error {
	empty := []string{`TRUNCATE future_job, history, alert, alert_outbox`}
	if g.pending > 0 {
		empty = []string{
			`TRUNCATE history, alert, alert_outbox`, `DELETE FROM future_job WHERE ` + g.ofRounds(), `VACUUM (INDEX_CLEANUP ON) future_job`,
		}
	}
	return execute(ctx, g.pool, empty...)
}

// fill also vacuums and requests a checkpoint, so that the rounds are alike. Without the permission it measures without
// a checkpoint.
func (g *postgresDB) fill(ctx context.Context, shape Shape, jobs int, ahead time.Duration) error {
	due := `date_trunc('minute', now()) - interval '1 minute'`
	if ahead > 0 {
		due = fmt.Sprintf(`date_trunc('second', now()) + interval '%d s'`, int(ahead.Seconds()))
	}
	if err := insert(ctx, g.pool, jobs, shape.ends(jobs), due); err != nil {
		return err
	}
	if ahead > 0 { // in the future
		return nil
	}
	if err := execute(ctx, g.pool, `VACUUM (ANALYZE) future_job`); err != nil {
		return err
	}
	_, _ = g.pool.Exec(ctx, `CHECKPOINT`)
	if g.apart {
		return g.checkApart(ctx, jobs)
	}
	return nil
}

// fullPageImages closes the connections of the pool first: the server counts their writes after they end.
func (g *postgresDB) fullPageImages(ctx context.Context) (fullPageImages int64, err error) {
	g.pool.Reset()
	for last := int64(-1); last != fullPageImages; {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(imagesLook):
		}
		last = fullPageImages
		err := g.pool.QueryRow(ctx, `SELECT wal_fpi FROM pg_stat_wal`).Scan(&fullPageImages)
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == undefinedTable { // before Postgres 14
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
	}
	return fullPageImages, nil
}

// imagesLook is the polling interval; two equal counts are final.
const imagesLook = 100 * time.Millisecond

// undefinedTable is the error code for a missing table.
const undefinedTable = "42P01"

// openOldSnapshot begins a transaction with a snapshot of the current state.
func (g *postgresDB) openOldSnapshot(ctx context.Context) (release func(context.Context) error, err error) {
	conn, err := pgx.Connect(ctx, g.inside)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`, `SELECT 1 FROM setting`} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	return func(ctx context.Context) error {
		_, err := conn.Exec(ctx, `COMMIT`)
		if err != nil {
			err = fmt.Errorf("the old transaction ended during the measurement: %w", err)
		}
		return errors.Join(err, conn.Close(ctx))
	}, nil
}

func (g *postgresDB) check(ctx context.Context, shape Shape, jobs int) (int64, error) {
	var d tableCounts
	err := g.pool.QueryRow(ctx, counted("now()", "next_check_at", g.ofRounds())).Scan(d.fields()...)
	if err != nil {
		return 0, err
	}
	return d.bytes, d.was(shape, jobs)
}

func (g *postgresDB) insert(ctx context.Context, r *bareRows) error {
	_, err := g.pool.Exec(ctx, bareInsert, r.shard, r.rule, r.version, r.key, r.created, r.since, r.first, r.next, r.event)
	return err
}

func (g *postgresDB) createdBytes(ctx context.Context, jobs int) (bytes int64, err error) {
	var there int
	if err := g.pool.QueryRow(ctx, createdRows+g.ofRounds()+` AND next_check_at > now()`).Scan(&there, &bytes); err != nil {
		return 0, err
	}
	return bytes, checkCreated(there, jobs)
}

// vacuumAndCheckpoint requests a checkpoint; without the permission it measures without one.
func (g *postgresDB) vacuumAndCheckpoint(ctx context.Context) error {
	err := g.run(ctx, `VACUUM (ANALYZE) future_job`)
	_, _ = g.pool.Exec(ctx, `CHECKPOINT`)
	return err
}

func (g *postgresDB) run(ctx context.Context, statements ...string) error {
	return execute(ctx, g.pool, statements...)
}

// pend inserts the other pending jobs without indexes, and then creates the indexes.
//
// About half of a body is as random as the ids and amounts of real ones: otherwise the server could compress its log
// too well.
//
// If the jobs of a round are to be scattered among them, it creates a hole for each: it inserts a job and deletes it,
// so that the only other free space is at the end.
func (g *postgresDB) pend(ctx context.Context, o Options) error {
	if o.Pending == 0 {
		return nil
	}
	every := 0
	if g.apart = o.Scattered; g.apart {
		every = 3 * o.Pending / (4 * o.Jobs) // some holes are a few bytes too small for a job
	}
	if g.pending = o.Pending; every > 0 {
		g.pending -= o.Pending / every
	}
	indexes, err := g.dropIndexes(ctx)
	if err != nil {
		return err
	}
	if err := g.putIn(ctx, o, every); err != nil {
		return err
	}
	if g.apart {
		if err := execute(ctx, g.pool, `DELETE FROM future_job WHERE next_check_at < '`+g.pendingFrom.UTC().Format(time.RFC3339)+`'`); err != nil {
			return err
		}
	}
	o.progress("vacuum", 0, 1)
	if err := execute(ctx, g.pool, `VACUUM (ANALYZE) future_job`); err != nil {
		return err
	}
	for i, index := range indexes {
		o.progress("indexes", i, len(indexes))
		if err := g.makeIndex(ctx, index); err != nil {
			return err
		}
	}
	return execute(ctx, g.pool, `ANALYZE future_job`)
}

// putIn inserts the jobs with concurrent statements. One in every is a hole; 0: none.
func (g *postgresDB) putIn(ctx context.Context, o Options, every int) error {
	hole := "false"
	if every > 0 {
		hole = fmt.Sprintf("i %% %d = 0", every)
	}
	text := fmt.Sprintf(`INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
		SELECT (hashint4(i) & 1023) %% %d, r.id, r.version, %s, t, t, t, t, '{"order_id" : "ord-' || i || '", "status" : "UNSHIPPED", "total" : ' || i %% 500 ||
			', "pad" : "' || md5(i::text) || md5((-i)::text) || r.pad || '"}'
		FROM generate_series($1::int, $2::int) i,
			(SELECT id, (SELECT max(version) FROM rule_version WHERE rule_id = rule.id) AS version, repeat('x', 56) AS pad
				FROM rule WHERE name = 'bench-later') r,
			LATERAL (SELECT CASE WHEN %[4]s THEN now() ELSE $3::timestamptz + (hashint4(i) & 1073741823) %% %[3]d * interval '1 s' END AS t) x`,
		shards, laterKey, int(pendsSpread.Seconds()), hole)
	inserted := make(chan int)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(backlogWriters + 1)
	group.Go(func() error {
		for done := 0; done < o.Pending; {
			select {
			case n := <-inserted:
				done += n
				o.progress("pending jobs", done, o.Pending)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for from := 1; from <= o.Pending && ctx.Err() == nil; from += backlogChunk {
		to := min(from+backlogChunk-1, o.Pending)
		group.Go(func() error {
			if _, err := g.pool.Exec(ctx, text, from, to, g.pendingFrom); err != nil {
				return err
			}
			select {
			case inserted <- to - from + 1:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	return group.Wait()
}

// dropIndexes drops all indexes of the jobs and returns how to recreate them.
func (g *postgresDB) dropIndexes(ctx context.Context) ([]index, error) {
	rows, err := g.pool.Query(ctx, `
SELECT c.relname, pg_get_indexdef(i.indexrelid), coalesce(k.conname, ''), coalesce(k.contype = 'p', false)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid
WHERE i.indrelid = 'future_job'::regclass ORDER BY c.relname`)
	if err != nil {
		return nil, err
	}
	var all []index
	var drop []string
	var name, definition, constraint string
	var primary bool
	if _, err := pgx.ForEachRow(rows, []any{&name, &definition, &constraint, &primary}, func() error {
		one := index{make: definition}
		kind := "UNIQUE"
		if primary {
			kind = "PRIMARY KEY"
		}
		if constraint == "" {
			drop = append(drop, `DROP INDEX `+name)
		} else {
			drop = append(drop, `ALTER TABLE future_job DROP CONSTRAINT `+constraint)
			one.constraint = fmt.Sprintf(`ALTER TABLE future_job ADD CONSTRAINT %s %s USING INDEX %s`, constraint, kind, name)
		}
		all = append(all, one)
		return nil
	}); err != nil {
		return nil, err
	}
	return all, execute(ctx, g.pool, drop...)
}

// makeIndex creates an index with a larger sort memory.
func (g *postgresDB) makeIndex(ctx context.Context, i index) error {
	tx, err := g.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // no effect after a commit
	for _, statement := range []string{`SET LOCAL maintenance_work_mem = '512MB'`, i.make, i.constraint} {
		if statement == "" {
			continue
		}
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// pends counts all pending jobs, which takes a while.
func (g *postgresDB) pends(ctx context.Context) error {
	n := 0
	if err := g.pool.QueryRow(ctx, `SELECT count(*) FROM future_job WHERE next_check_at >= $1`, g.pendingFrom).Scan(&n); err != nil {
		return err
	}
	return allPend(n, g.pending)
}

// checkApart checks that nearly all due jobs are on separate pages.
func (g *postgresDB) checkApart(ctx context.Context, jobs int) error {
	var pages int
	if err := g.pool.QueryRow(ctx, `SELECT count(DISTINCT (ctid::text::point)[0]) FROM future_job WHERE `+g.ofRounds()).Scan(&pages); err != nil {
		return err
	}
	if 4*pages < 3*jobs {
		return fmt.Errorf("%d due jobs lie on %d pages, so they aren't scattered; increase the number of pending jobs", jobs, pages)
	}
	return nil
}
