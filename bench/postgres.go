package bench

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/store"
)

// postgresGround is a schema of its own in somebody's Postgres.
type postgresGround struct {
	outside string // how to connect
	inside  string // the same, into the schema
	schema  string
	pool    *pgxpool.Pool // inside
}

func openPostgres(ctx context.Context, database string) (*postgresGround, error) {
	g := &postgresGround{outside: database, schema: "deadman_bench_" + uuid.NewString()[:8]}
	inside, err := within(database, g.schema)
	if err != nil {
		return nil, err
	}
	g.inside = inside
	if err := g.say(ctx, `CREATE SCHEMA `+g.schema); err != nil {
		return nil, fmt.Errorf("make a schema to measure in: %w", err)
	}
	if g.pool, err = pgxpool.New(ctx, g.inside); err != nil {
		return nil, err
	}
	return g, nil
}

// within is a connection string whose tables are those of a schema.
func within(database, schema string) (string, error) {
	if !strings.Contains(database, "://") {
		return database + " search_path=" + schema, nil
	}
	u, err := url.Parse(database)
	if err != nil {
		return "", fmt.Errorf("the address of the database can't be read: %w", err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// say runs a statement outside of the schema.
func (g *postgresGround) say(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, g.outside)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statement has run, or failed
	_, err = conn.Exec(ctx, statement)
	return err
}

func (g *postgresGround) store(ctx context.Context) (*store.Store, error) {
	o := storeOptions()
	o.DatabaseURL = g.inside
	return store.Open(ctx, o)
}

func (g *postgresGround) close(ctx context.Context) error {
	g.pool.Close()
	if err := g.say(ctx, `DROP SCHEMA `+g.schema+` CASCADE`); err != nil {
		return fmt.Errorf("the schema %s is left, drop it: %w", g.schema, err)
	}
	return nil
}

func (g *postgresGround) written(ctx context.Context) (int64, error) { return written(ctx, g.pool) }

// written is how many bytes of WAL the server has written since it was made.
func written(ctx context.Context, pool *pgxpool.Pool) (lsn int64, err error) {
	err = pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&lsn)
	return lsn, err
}

// fill also vacuums, and asks for a checkpoint, so that the rounds are alike. Who may not ask for one
// measures without.
func (g *postgresGround) fill(ctx context.Context, shape Shape, jobs int) error {
	if err := insert(ctx, g.pool, jobs, shape.ends(jobs), `date_trunc('minute', now()) - interval '1 minute'`); err != nil {
		return err
	}
	_, _ = g.pool.Exec(ctx, `CHECKPOINT`)
	return nil
}

// FillPending empties the tables and puts in jobs that are due in an hour.
func FillPending(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	return insert(ctx, pool, jobs, jobs, `date_trunc('minute', now()) + interval '1 hour'`)
}

// insert empties the tables and puts in jobs that are due at an instant, with bodies of about 200
// bytes, spread over the shards. Those that end lie among the others.
func insert(ctx context.Context, pool *pgxpool.Pool, jobs, ends int, due string) error {
	for _, statement := range []string{
		`TRUNCATE future_job, history, alert, alert_outbox`,
		fmt.Sprintf(`INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
			SELECT (hashint4(i) & 1023) %% %d, r.id, v.version, 'key-' || i, t, t, t, t,
				json_build_object('order_id', 'ord-' || i, 'status', 'UNSHIPPED', 'total', i %% 500, 'pad', repeat('x', 120))::text
			FROM generate_series(1, %[2]d) i
			JOIN rule r ON r.name = CASE WHEN i::bigint * %[3]d / %[2]d > (i::bigint - 1) * %[3]d / %[2]d THEN 'bench' ELSE 'bench-later' END,
				LATERAL (SELECT max(version) AS version FROM rule_version WHERE rule_id = r.id) v,
				(SELECT %[4]s AS t) x
			ORDER BY i`, shards, jobs, ends, due),
		`VACUUM (ANALYZE) future_job`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (g *postgresGround) check(ctx context.Context, shape Shape, jobs int) (int64, error) {
	var d done
	err := g.pool.QueryRow(ctx, counted("now()", "next_check_at")).Scan(d.fields()...)
	if err != nil {
		return 0, err
	}
	return d.bytes, d.was(shape, jobs)
}
