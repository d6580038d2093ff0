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

	"deadman/internal/store"
)

// schemaPrefix is the prefix of the schemas for measurements; eight hexadecimal digits follow.
const schemaPrefix = "deadman_bench_"

// postgresDB is a schema in the user's Postgres.
type postgresDB struct {
	outside string // URL without the schema
	inside  string // URL with the schema
	schema  string
	pool    *pgxpool.Pool // with the schema
	begins  time.Time     // time of the first pending job; jobs due earlier belong to a round
	pending int
	apart   bool // the jobs of a round are scattered among the pending ones
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
	g.begins = laterBegins(now)
	return g, nil
}

// say runs a statement outside of the schema.
func (g *postgresDB) say(ctx context.Context, statement string) error {
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
	if err := g.say(ctx, `DROP SCHEMA `+g.schema+` CASCADE`); err != nil {
		return leftError{g.schema, err}
	}
	return nil
}

func (g *postgresDB) now(ctx context.Context) (now time.Time, err error) {
	err = g.pool.QueryRow(ctx, `SELECT now()`).Scan(&now)
	return now, err
}

func (g *postgresDB) written(ctx context.Context) (int64, error) { return written(ctx, g.pool) }

// written returns the bytes of WAL that the server has written since its creation.
func written(ctx context.Context, pool *pgxpool.Pool) (lsn int64, err error) {
	err = pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&lsn)
	return lsn, err
}

// ofRounds returns the condition for jobs of a round.
func (g *postgresDB) ofRounds() string {
	return fmt.Sprintf(`shard = ANY (ARRAY(SELECT generate_series(0, %d)::smallint)) AND next_check_at < '%s'`, shards-1, g.begins.UTC().Format(time.RFC3339))
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

// execute runs statements, each in its own transaction.
func execute(ctx context.Context, pool *pgxpool.Pool, statements ...string) error {
	for _, statement := range statements {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// FillPending empties the tables and inserts jobs that are due in an hour.
func FillPending(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	if err := execute(ctx, pool, `TRUNCATE future_job, history, alert, alert_outbox`); err != nil {
		return err
	}
	if err := insert(ctx, pool, jobs, jobs, `date_trunc('minute', now()) + interval '1 hour'`); err != nil {
		return err
	}
	return execute(ctx, pool, `VACUUM (ANALYZE) future_job`)
}

// insert inserts jobs that are due at an instant, with bodies of about 200 bytes, spread over the shards. The jobs that
// end are evenly distributed among the others.
func insert(ctx context.Context, pool *pgxpool.Pool, jobs, ends int, due string) error {
	_, err := pool.Exec(ctx, fmt.Sprintf(`INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
		SELECT (hashint4(i) & 1023) %% %d, r.id, v.version, 'key-' || i, t, t, t, t,
			json_build_object('order_id', 'ord-' || i, 'status', 'UNSHIPPED', 'total', i %% 500, 'pad', repeat('x', 120))::text
		FROM generate_series(1, %[2]d) i
		JOIN rule r ON r.name = CASE WHEN i::bigint * %[3]d / %[2]d > (i::bigint - 1) * %[3]d / %[2]d THEN 'bench' ELSE 'bench-later' END,
			LATERAL (SELECT max(version) AS version FROM rule_version WHERE rule_id = r.id) v,
			(SELECT %[4]s AS t) x
		ORDER BY i`, shards, jobs, ends, due))
	return err
}

func (g *postgresDB) check(ctx context.Context, shape Shape, jobs int) (int64, error) {
	var d tableCounts
	err := g.pool.QueryRow(ctx, counted("now()", "next_check_at", g.ofRounds())).Scan(d.fields()...)
	if err != nil {
		return 0, err
	}
	return d.bytes, d.was(shape, jobs)
}
