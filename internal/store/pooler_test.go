package store_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"deadman/internal/bus/bustest"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/internal/testwait"
)

// startPooler starts a PgBouncer in front of the server of a database, and returns the database's address behind it.
func startPooler(t *testing.T, dsn, mode string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	p, err := storetest.StartPooler(u.Hostname(), port, mode)
	if errors.Is(err, storetest.ErrNoPooler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p.DSN(strings.TrimPrefix(u.Path, "/"))
}

// useConcurrently sends statements in transactions on several connections at a time, so that a pooler which assigns servers
// to transactions mixes them.
func useConcurrently(t *testing.T, s *store.Store) error {
	t.Helper()
	var all sync.WaitGroup
	failed := make(chan error, 6)
	for range cap(failed) {
		all.Go(func() {
			for i := range 60 {
				if err := transact(t.Context(), s.DB(), i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// transact sends two statements with parameters in a transaction.
func transact(ctx context.Context, db *sql.DB, i int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it has no effect
	for _, text := range []string{`SELECT $1::int`, `SELECT count(*) FROM shard_lease WHERE shard > $1`} {
		var n int
		if err := tx.QueryRowContext(ctx, text, i).Scan(&n); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// A store behind a pooler works without a parameter in its URL, in both modes of the pooler.
func TestStoreWorksBehindPooler(t *testing.T) {
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(t.Context(), store.Options{DatabaseURL: startPooler(t, storetest.Postgres(t), mode)})
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			if err := useConcurrently(t, s); err != nil {
				t.Error(err)
			}
		})
	}
}

// A URL that makes a node prepare statements is refused if the pooler loses them, with the remedy and without the password.
func TestPreparedStatementsBehindPoolerAreRefused(t *testing.T) {
	for _, mode := range []string{"cache_statement", "describe_exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dsn := startPooler(t, storetest.Postgres(t), "transaction") + "&default_query_exec_mode=" + mode
			_, err := store.Open(t.Context(), store.Options{DatabaseURL: dsn, URLName: "--database-url"})
			if err == nil || errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("open: %v", err)
			}
			for _, part := range []string{"--database-url", "remove default_query_exec_mode", "max_prepared_statements"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %s: %v", part, err)
				}
			}
		})
	}
}

// A URL may choose prepared statements behind a pooler that keeps them, and cache_describe behind each.
func TestExecModeOfURLIsKept(t *testing.T) {
	for pooling, mode := range map[string]string{"session": "cache_statement", "transaction": "cache_describe"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dsn := startPooler(t, storetest.Postgres(t), pooling) + "&default_query_exec_mode=" + mode
			s, err := store.Open(t.Context(), store.Options{DatabaseURL: dsn})
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			if err := useConcurrently(t, s); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pooler may come into the way of an open store, as by a changed name. The store continues without an error.
func TestPoolerComesIntoTheWay(t *testing.T) {
	t.Parallel()
	direct := storetest.Postgres(t)
	pooled := startPooler(t, direct, "transaction")
	var to atomic.Pointer[url.URL]
	turn := func(dsn string) *url.URL {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		to.Store(u)
		return u
	}
	u := *turn(direct)
	var log bustest.Log
	u.Host = forward(t, &to)
	s, err := store.Open(t.Context(), store.Options{DatabaseURL: u.String(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	if err := useConcurrently(t, s); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "pooler") {
		t.Errorf("a pooler is reported without one: %s", log.String())
	}
	turn(pooled)
	exec(t, s, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	testwait.Until(t, "the closed connections are gone", func() bool { return useConcurrently(t, s) == nil })
	for range 5 {
		if err := useConcurrently(t, s); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "the node prepares no statements"); n != 1 {
		t.Errorf("the pooler is reported %d times:\n%s", n, log.String())
	}
}

// forward passes connections on to the server that to names at that time, and returns its address.
func forward(t *testing.T, to *atomic.Pointer[url.URL]) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to.Load().Host)
			if err != nil {
				_ = near.Close()
				continue
			}
			for from, into := range map[net.Conn]net.Conn{near: far, far: near} {
				all.Go(func() {
					_, _ = io.Copy(into, from) // ends with one of the two
					_ = into.Close()
				})
			}
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}
