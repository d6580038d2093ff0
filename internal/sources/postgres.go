package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/checks"
	"deadman/checks/lookup"
)

// Defaults of a database.
const (
	statementTimeout = 2 * time.Second
	connectTimeout   = 5 * time.Second
	lookConns        = 2 // of the pool, beside those of batches: to verify and to reach
)

// mostMessage bounds one message of a database in bytes. It is more than one key may find, so
// that what is a little over that costs no connection.
const mostMessage = 1 << 20

// postgres asks a database. All that it sets is set in a transaction, so that it works behind a
// pooler, and nothing that a query sets outlives it. What outlives a transaction, the locks of a session,
// is given back with it.
type postgres struct {
	pool    *pgxpool.Pool
	timeout time.Duration // of one statement
	rights  *rights
}

// openPostgres opens a database that is asked about so many batches at once.
func openPostgres(name string, o Postgres, batches int) (lookup.Client, error) {
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil { // it quotes what it can't take apart
		return nil, fmt.Errorf("source %s: its URL cannot be read; a right one looks like postgres://user:password@host:5432/database", name)
	}
	if !strings.Contains(o.URL, "pool_max_conns") {
		cfg.MaxConns = int32(batches + lookConns)
	}
	if !strings.Contains(o.URL, "connect_timeout") {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "deadman")
	params["timezone"], params["datestyle"] = "UTC", "ISO" // as statement.field reads instants
	p := &postgres{timeout: cmp.Or(o.StatementTimeout, statementTimeout), rights: &rights{}}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		c.PgConn().Frontend().SetMaxBodyLen(mostMessage)
		return p.rights.look(ctx, c.PgConn())
	}
	if p.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil { // it connects when it is asked
		return nil, fmt.Errorf("source %s: its pool of connections can't be made: %w", name, err)
	}
	return p, nil
}

// Ask asks in one round trip, and in one more if a key fails.
func (p *postgres) Ask(ctx context.Context, q lookup.Question, asks []lookup.KeyQuery) ([]checks.Finding, error) {
	if q.SQL == "" {
		return nil, wrapSourceKind("a database", "sql")
	}
	b := &batch{asks: asks, found: unknown(asks)}
	for b.next < len(asks) {
		err := p.trip(ctx, q.SQL, b)
		switch {
		case err == nil:
		case errors.Is(err, errStale) && b.stale < int(p.pool.Config().MaxConns): // one connection has forgotten it
			b.stale++
		case errors.Is(err, errLost) && p.Reach(ctx) == nil: // a query can end connections, also those of others
			b.lose(err)
		case ctx.Err() != nil:
			return b.done(finish(b.found, func(i int) bool { return i < b.next }, err))
		default:
			return nil, err
		}
	}
	return b.done(b.refusal(q.SQL))
}

// Verify has the database parse the query.
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

// Reach connects, unless it is connected.
func (p *postgres) Reach(ctx context.Context) error {
	if err := p.pool.Ping(ctx); err != nil {
		return unconnected(ctx, err)
	}
	return nil
}

// Caution implements lookup.Cautious.
func (p *postgres) Caution() string { return p.rights.caution() }

// Close lets go of connections.
func (p *postgres) Close() { p.pool.Close() }
