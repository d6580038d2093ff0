package storetest

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"deadman/internal/store"
)

// clockFunctions hide the clock functions of Postgres: a search path has their schema before pg_catalog. They return the time
// that virtualClock set, and fail if it set none.
const clockFunctions = `
CREATE SCHEMA virtual_clock;
CREATE FUNCTION virtual_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$SELECT current_setting('virtual_clock.began')::timestamptz$$;
CREATE FUNCTION virtual_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT current_setting('virtual_clock.time')::timestamptz$$`

// VirtualPostgres returns the options of a store on a new Postgres database whose clock is time.Now of the caller's
// synctest bubble. The caller closes the store within the bubble.
func VirtualPostgres(tb testing.TB) store.Options {
	tb.Helper()
	dsn := Postgres(tb)
	if err := execute(dsn, clockFunctions); err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		tb.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", "public,virtual_clock,pg_catalog")
	u.RawQuery = q.Encode()
	return store.Options{DatabaseURL: u.String(), Tracer: virtualClock{}}
}

// virtualClock sets the time of a connection before each of its statements.
type virtualClock struct{}

var (
	_ pgx.QueryTracer    = virtualClock{}
	_ pgx.BatchTracer    = virtualClock{}
	_ pgx.CopyFromTracer = virtualClock{}
)

// set sets the time, unless it is that of the last statement outside a transaction: a rollback takes back what is set within.
func (virtualClock) set(ctx context.Context, c *pgx.Conn) {
	const began = "virtual_clock"
	at := time.Now().UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	known := c.PgConn().CustomData()
	if known[began] == at {
		return
	}
	set := `SET virtual_clock.time = '` + at + `'`
	if c.PgConn().TxStatus() == 'I' {
		set += `; SET virtual_clock.began = '` + at + `'`
		known[began] = at
	}
	err := c.PgConn().Exec(ctx, set).Close()
	if err != nil {
		delete(known, began)
	}
	var failed *pgconn.PgError
	if errors.As(err, &failed) && failed.Code != "25P02" { // the transaction failed before
		panic(err)
	}
}

func (v virtualClock) TraceQueryStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	v.set(ctx, c)
	return ctx
}

func (virtualClock) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (v virtualClock) TraceBatchStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	v.set(ctx, c)
	return ctx
}

func (virtualClock) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (virtualClock) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (v virtualClock) TraceCopyFromStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	v.set(ctx, c)
	return ctx
}

func (virtualClock) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}
