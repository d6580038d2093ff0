package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/checks"
	"deadman/checks/lookup"
)

// The defaults of a database source.
const (
	statementTimeout = 2 * time.Second
	connectTimeout   = 5 * time.Second
	lookConns        = 2 // additional connections of the pool, for Verify and Reach
)

// mostMessage bounds one message of a database, in bytes. It exceeds the limit of one key, so that slightly oversized
// results cost no connection.
const mostMessage = 1 << 20

// postgres queries a Postgres database. All its settings are local to a transaction, so that it works behind a pooler
// and no setting of a query outlives the transaction. Advisory locks of the session, which would outlive it, are
// released with it.
type postgres struct {
	pool    *pgxpool.Pool
	timeout time.Duration // of one statement
	rights  *rights
}

// openPostgres opens a database with connections for the given number of concurrent batches.
func openPostgres(name string, o Postgres, batches int) (lookup.Client, error) {
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil { // the error quotes the URL
		return nil, fmt.Errorf("source %s: the URL is invalid; write one such as postgres://user:password@host:5432/database", name)
	}
	if !strings.Contains(o.URL, "pool_max_conns") {
		cfg.MaxConns = int32(batches + lookConns)
	}
	if !strings.Contains(o.URL, "connect_timeout") {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "deadman")
	params["timezone"], params["datestyle"] = "UTC", "ISO" // as expected by statement.field
	p := &postgres{timeout: cmp.Or(o.StatementTimeout, statementTimeout), rights: &rights{}}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		c.PgConn().Frontend().SetMaxBodyLen(mostMessage)
		return p.rights.load(ctx, c.PgConn())
	}
	if p.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil { // it connects on first use
		return nil, fmt.Errorf("source %s: create the connection pool: %w", name, err)
	}
	return p, nil
}

// Query queries in one round trip, and in a second if a key fails.
func (p *postgres) Query(ctx context.Context, q lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	if q.SQL == "" {
		return nil, wrapSourceKind("a database", "sql")
	}
	b := &batch{queries: queries, found: unknown(queries)}
	for b.next < len(queries) {
		err := p.trip(ctx, q.SQL, b)
		switch {
		case err == nil:
		case errors.Is(err, errStale) && b.stale < int(p.pool.Config().MaxConns): // one connection has a stale plan
			b.stale++
		case errors.Is(err, errLost) && p.Reach(ctx) == nil: // a query can end connections, including those of others
			b.lose(err)
		case ctx.Err() != nil:
			return b.done(finish(b.found, func(i int) bool { return i < b.next }, err))
		default:
			return nil, err
		}
	}
	return b.done(b.refusal(q.SQL))
}

// Verify lets the database parse the query.
func (p *postgres) Verify(ctx context.Context, q lookup.Question, params int) ([]lookup.Column, error) {
	if q.SQL == "" {
		return nil, wrapSourceKind("a database", "sql")
	}
	c, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, unconnected(ctx, err)
	}
	defer c.Release()
	s, err := prepare(ctx, c.Conn().PgConn(), "", q.SQL)
	switch {
	case err != nil:
		return nil, err
	case len(s.ParamOIDs) != params:
		return nil, wrongCount(len(s.ParamOIDs), params)
	}
	return s.columns, nil
}

// Reach pings the database, connecting if necessary.
func (p *postgres) Reach(ctx context.Context) error {
	if err := p.pool.Ping(ctx); err != nil {
		return unconnected(ctx, err)
	}
	return nil
}

// Caution implements lookup.Cautious.
func (p *postgres) Caution() string { return p.rights.caution() }

// Close closes the pool.
func (p *postgres) Close() { p.pool.Close() }

// trip answers at least one more key of a batch, or returns an error that ends the batch.
func (p *postgres) trip(ctx context.Context, query string, b *batch) error {
	c, err := p.pool.Acquire(ctx)
	if err != nil {
		return unconnected(ctx, err)
	}
	defer c.Release()
	pg := c.Conn().PgConn()
	s, err := prepared(ctx, pg, query)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &roundTrip{batch: b, statement: s, pipe: pg.StartPipeline(ctx), breakOff: cancel}
	err = t.run(p.statementTimeout(ctx))
	if left := t.pipe.Close(); err == nil && !errors.As(left, new(*pgconn.PgError)) {
		err = left // a Postgres error has been answered already; a lost connection has not
	}
	switch {
	case errors.Is(err, errStale):
		delete(pg.CustomData(), query) // the statement's name is not reused
	case errors.Is(err, errTooMuchData):
		b.noteOversized()
		return nil
	case err != nil && ctx.Err() == nil && pg.IsClosed():
		return fmt.Errorf("%w: %w", errLost, unreachable(ctx, err))
	case err != nil:
		return unreachable(ctx, err)
	}
	return err
}

// statementTimeout returns the statement timeout in milliseconds. It expires before the batch's deadline, so that the
// database reports the slow key.
func (p *postgres) statementTimeout(ctx context.Context) string {
	timeout := p.timeout
	if end, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(end)*3/4)
	}
	return strconv.FormatInt(max(1, timeout.Milliseconds()), 10)
}
