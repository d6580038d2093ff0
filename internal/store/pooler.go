package store

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// execMode is the parameter of a database URL that chooses how statements are sent.
const execMode = "default_query_exec_mode"

// ChoosesExecMode reports whether a database URL chooses how statements are sent. Otherwise a node prepares statements, and
// behind a pooler it does not.
func ChoosesExecMode(text string) bool { return strings.Contains(text, execMode) }

// IsPooled reports whether a pooler, such as PgBouncer, is between a connection and the server: the number of the server's
// process differs from the number received at the login, which is the pooler's own.
func IsPooled(ctx context.Context, c *pgx.Conn) (bool, error) {
	results, err := c.PgConn().Exec(ctx, `SELECT pg_backend_pid()`).ReadAll()
	if err != nil {
		return false, err
	}
	pid, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
	if err != nil {
		return false, fmt.Errorf("process of the server: %w", err)
	}
	return pid != uint64(c.PgConn().PID()), nil
}

// Connect opens one connection to a Postgres database as a store does: behind a pooler it prepares no statements, unless the
// URL chooses to. name is the URL's name in errors.
func Connect(ctx context.Context, name, text string) (*pgx.Conn, error) {
	cfg, err := Address(name, text)
	if err != nil {
		return nil, err
	}
	c, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, Unreachable(name, err)
	}
	pooled, err := IsPooled(ctx, c)
	if err == nil && (!pooled || ChoosesExecMode(text)) {
		return c, nil
	}
	if err = errors.Join(err, c.Close(ctx)); err != nil {
		return nil, Unreachable(name, err)
	}
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if c, err = pgx.ConnectConfig(ctx, cfg.ConnConfig); err != nil {
		return nil, Unreachable(name, err)
	}
	return c, nil
}

// errPooled ends a connection that would prepare statements behind a pooler. The next one does not: database/sql and the
// callers of a store try again.
var errPooled = fmt.Errorf("%w: a pooler is in between; the next connection prepares no statements", driver.ErrBadConn)

// pooler makes the connections of a pool prepare no statements from the first one that leads through a pooler: many poolers
// assign a server to a transaction and not to a client, so a prepared statement is missing or exists already.
type pooler struct {
	chosen bool // the database URL chooses how statements are sent
	found  atomic.Bool
	log    *slog.Logger
}

// beforeConnect sets how a connection sends statements.
func (p *pooler) beforeConnect(_ context.Context, c *pgx.ConnConfig) error {
	if p.found.Load() {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// afterConnect registers the types of a connection. It returns errPooled for one that would prepare statements behind a pooler.
func (p *pooler) afterConnect(ctx context.Context, c *pgx.Conn) error {
	if err := registerTypes(ctx, c); err != nil || p.chosen || c.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe {
		return err
	}
	pooled, err := IsPooled(ctx, c)
	if err != nil || !pooled {
		return err
	}
	if p.found.CompareAndSwap(false, true) {
		p.log.Info("a pooler is between the node and the database; the node prepares no statements")
	}
	return errPooled
}

// Errors of prepared statements behind a pooler that assigns servers to transactions.
const (
	statementExists  = "42P05"
	statementMissing = "26000"
)

// poolerProbes bounds the repetitions of a probe: the pooler may assign another server, for which it finds nothing.
const poolerProbes = 3

// probePreparedStatements returns an error with a remedy if the pooler on the way to the server loses prepared statements.
func probePreparedStatements(ctx context.Context, name string, cfg *pgx.ConnConfig) error {
	if cfg.DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	var pair [2]*pgconn.PgConn
	defer func() { // nothing was written
		for _, c := range pair {
			if c != nil {
				_ = c.Close(ctx)
			}
		}
	}()
	for i := range pair {
		c, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return Unreachable(name, err)
		}
		pair[i] = c.PgConn()
		if pooled, err := IsPooled(ctx, c); err != nil || !pooled {
			return err
		}
	}
	for range poolerProbes {
		err := probePair(ctx, pair[0], pair[1])
		switch {
		case isCode(err, statementExists), isCode(err, statementMissing):
			return fmt.Errorf("%s: %s is %q, and the pooler between the node and the database loses prepared statements (%w); remove %s, or make the pooler assign servers to sessions, or keep prepared statements (PgBouncer 1.21 or newer: max_prepared_statements)",
				name, execMode, cfg.DefaultQueryExecMode, err, execMode)
		case err != nil:
			return Unreachable(name, err)
		}
	}
	return nil
}

// probePair prepares a statement on one connection, and again on another one in a transaction, to which a pooler probably
// assigned the same server. Then the first connection needs another server, which lacks the statement.
func probePair(ctx context.Context, one, other *pgconn.PgConn) error {
	statement := "deadman_" + rand.Text()
	if _, err := one.Prepare(ctx, statement, `SELECT 1`, nil); err != nil {
		return err
	}
	if err := other.Exec(ctx, `BEGIN`).Close(); err != nil {
		return err
	}
	_, err := other.Prepare(ctx, statement, `SELECT 1`, nil)
	if err == nil {
		err = one.ExecPrepared(ctx, statement, nil, nil, nil).Read().Err
	}
	return errors.Join(err, other.Exec(ctx, `ROLLBACK`).Close())
}
