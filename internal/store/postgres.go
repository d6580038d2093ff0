package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	futurejobs "deadman/future_jobs"
)

// postgres implements engine on a pool of connections.
type postgres struct {
	*postgresPool
	postgresDue
	postgresSettlement
	postgresEffects
	postgresOutbox
	postgresHistory
	postgresRetention
}

func newPostgres(p *postgresPool) *postgres {
	e := &postgres{
		postgresPool:       p,
		postgresDue:        postgresDue{postgresPool: p},
		postgresSettlement: postgresSettlement{p},
		postgresEffects:    postgresEffects{postgresPool: p},
		postgresOutbox:     postgresOutbox{p},
		postgresHistory:    postgresHistory{postgresPool: p},
	}
	e.postgresRetention = postgresRetention{&e.postgresHistory}
	return e
}

// postgresPool is a pool of connections with the SQL that differs from that of SQLite.
type postgresPool struct {
	pool *pgxpool.Pool
	db   *sql.DB // the same pool
	correction
}

// leastConns is the size of the pool if the database URL does not set pool_max_conns.
const leastConns = 10

// Address parses the URL of a Postgres database as a store connects to it. name is the URL's name in errors. An error
// proposes a fix and never contains the password.
func Address(name, text string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, urlError(name, text, err)
	}
	if !strings.Contains(text, "pool_max_conns") {
		cfg.MaxConns = max(cfg.MaxConns, leastConns)
	}
	if !strings.Contains(text, "connect_timeout") {
		cfg.ConnConfig.ConnectTimeout = dbTimeout
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "deadman"
	}
	switch mode := cfg.ConnConfig.DefaultQueryExecMode; mode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return nil, fmt.Errorf("%s: default_query_exec_mode is %q, in which the server does not say what a statement's parameters are; behind a pooler that keeps no prepared statements write cache_describe", name, mode)
	}
	return cfg, nil
}

func openPostgres(ctx context.Context, o Options) (*database, error) {
	name := cmp.Or(o.URLName, "DEADMAN_DATABASE_URL")
	cfg, err := Address(name, o.DatabaseURL)
	if err != nil {
		return nil, err
	}
	guard := &pooler{chosen: ChoosesExecMode(o.DatabaseURL), log: o.Log}
	cfg.ConnConfig.Tracer = o.Tracer
	cfg.BeforeConnect, cfg.AfterConnect = guard.beforeConnect, guard.afterConnect
	if guard.chosen {
		if err := probePreparedStatements(ctx, name, cfg.ConnConfig); err != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	e := newPostgres(&postgresPool{pool: pool, db: stdlib.OpenDBFromPool(pool)})
	err = pool.Ping(ctx)
	if errors.Is(err, errPooled) {
		err = pool.Ping(ctx)
	}
	if err != nil {
		return nil, errors.Join(Unreachable(name, err), e.close())
	}
	return &database{engine: e, db: e.db, read: e.db, log: o.Log}, nil
}

// registerTypes makes a connection read times in UTC, in any time zone of the process, and send encoded arrays.
func registerTypes(_ context.Context, c *pgx.Conn) error {
	c.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return registerArrayCodec(c.TypeMap())
}

// rightURL is an example of a database URL.
const rightURL = "a right one looks like postgres://user:password@host:5432/database"

// urlError returns an error for an invalid database URL with the given name. It never contains the URL's password:
// parser errors quote the part that they could not parse.
func urlError(name, text string, err error) error {
	scheme, _, isURL := strings.Cut(text, "://")
	_, malformed := url.Parse(text)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return fmt.Errorf("%s: %w", name, path)
	case isURL && scheme != "postgres" && scheme != "postgresql" && !strings.ContainsAny(scheme, ":@= "):
		return fmt.Errorf("%s begins with %q, and only postgres:// is supported; %s", name, scheme+"://", rightURL)
	case isURL && errors.As(malformed, new(url.EscapeError)):
		return fmt.Errorf(`%s has a bad percent escape (a "%%" itself is written %%25); %s`, name, rightURL)
	}
	return fmt.Errorf("%s cannot be read; %s", name, rightURL)
}

// Unreachable returns an error that proposes a fix for a failed connection. name is the name of the database URL.
func Unreachable(name string, err error) error {
	var pg *pgconn.PgError
	switch lost := asUnavailable(err); {
	case errors.As(err, &pg):
		return refused(name, pg, lost)
	case errors.Is(lost, ErrUnavailable):
		return fmt.Errorf("%w; is it running, and is %s right?", lost, name)
	}
	return fmt.Errorf("database: %w", err)
}

func refused(name string, pg *pgconn.PgError, err error) error {
	switch pg.Code {
	case "28P01", "28000": // invalid password, invalid authorization
		return fmt.Errorf("%w: %w; check the user and password in %s", ErrDenied, pg, name)
	case "3D000": // invalid catalog name
		return fmt.Errorf("%w: %w; create the database, then start again", ErrDenied, pg)
	}
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("database: %w", pg)
}

func (p *postgresPool) idOf(bytes string) string { return `encode(` + bytes + `, 'hex')::uuid` }

func (p *postgresPool) idText(id string) string { return `replace(CAST(` + id + ` AS text), '-', '')` }

func (p *postgresPool) holds(ids, id string) string {
	return `position(uuid_send(` + id + `) IN ` + ids + `) > 0`
}

func (p *postgresPool) tables() string {
	return `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`
}

// beginSQL returns a statement that bounds the transaction and returns its time.
func (p *postgresPool) beginSQL() string {
	return `WITH bounds AS MATERIALIZED (SELECT ` + bounded + `) SELECT now() FROM bounds`
}

// bounded makes a transaction end by itself if its node stops in the middle of it. It is local to the transaction, so
// it works behind a pooler.
var bounded = fmt.Sprintf(`set_config('statement_timeout', '%[1]d', true),
	set_config('idle_in_transaction_session_timeout', '%[1]d', true)`, dbTimeout.Milliseconds())

// isRetryable reports whether err is a serialization failure, a deadlock, or one of this package's transient errors.
func (p *postgresPool) isRetryable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "40001" || pg.Code == "40P01"
	}
	return errors.Is(err, errGateClosed) || errors.Is(err, errConcurrentCreate)
}

// repeating is isRetryable that also retries after a duplicate alert; it then sets repeats, so that the retry skips
// alerts that exist.
func (p *postgresPool) repeating(repeats *bool) func(error) bool {
	return func(err error) bool {
		if !*repeats && isCode(err, "23505") {
			*repeats = true
			return true
		}
		return p.isRetryable(err)
	}
}

// Pools implements connections.
func (p *postgresPool) Pools() []PoolUse {
	s := p.pool.Stat()
	return []PoolUse{{
		Name: "postgres", InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()), Max: int(s.MaxConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(),
	}}
}

func (p *postgresPool) close() error {
	err := p.db.Close()
	p.pool.Close()
	return err
}

// outOfTime returns futurejobs.ErrTooSlow for a transaction or a read that exceeded its time while the database answers
// other requests. The client's timeout ends before that of the statements, or after them while the result is in
// transit, so the server does not report it.
func (p *postgresPool) outOfTime(ctx context.Context, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if p.pool.Ping(ctx) != nil {
		return err
	}
	return fmt.Errorf("%w: %w", futurejobs.ErrTooSlow, err)
}

func (p *postgresPool) hourOf(instant string) string {
	return `date_trunc('hour', ` + instant + `, 'UTC')`
}

func (p *postgresPool) secondsOf(from, to string) string {
	return `floor(extract(epoch FROM ` + to + ` - ` + from + `))::bigint`
}

// answerTimeout bounds the ping to a database that did not finish a transaction.
const answerTimeout = 2 * time.Second
