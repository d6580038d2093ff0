package store

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"time"
)

// tries bounds the attempts of a transaction that loses against others.
const tries = 10

// withDBTimeout bounds the wait for a silent database: by more than any transaction takes.
func withDBTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 2*dbTimeout)
}

// retry runs f until it succeeds, fails with a permanent error, or tries are used up.
func retry(ctx context.Context, passing func(error) bool, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || try == tries || !passing(err) {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// pause sleeps for a random time that grows with each try.
func pause(ctx context.Context, try int) error {
	span := time.Millisecond << min(try, 6)
	t := time.NewTimer(span/2 + rand.N(span))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// scanner is a row of either driver.
type scanner interface{ Scan(dest ...any) error }

// cursor is a result of either driver.
type cursor interface {
	scanner
	Next() bool
	Err() error
}

// all reads a result to its end.
func all[T any](rows cursor, scan func(scanner, *T) error) ([]T, error) {
	return allInto(nil, rows, scan)
}

// allInto is all, written into room as far as its capacity allows.
func allInto[T any](room []T, rows cursor, scan func(scanner, *T) error) ([]T, error) {
	out := room[:0]
	for rows.Next() {
		if len(out) == cap(out) {
			out = slices.Grow(out, max(len(out), 16)) // rows are large: append by itself would copy a page of jobs four times
		}
		out = append(out, *new(T))
		if err := scan(rows, &out[len(out)-1]); err != nil {
			return nil, err
		}
	}
	return out, rows.Err()
}

// query runs a statement and reads its result to the end.
func query[T any](ctx context.Context, q querier, scan func(scanner, *T) error, text string, args ...any) ([]T, error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	rows, err := q.QueryContext(ctx, text, args...) //nolint:rowserrcheck // all checks it
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // all has read it to the end, or failed
	return all(rows, scan)
}

// first returns the first row of a query, or the error none if the result is empty. what names the row in an error.
func first[T any](ctx context.Context, q querier, scan func(scanner, *T) error, none error, what, text string, args ...any) (row T, err error) {
	rows, err := query(ctx, q, scan, text, args...)
	switch {
	case err != nil:
		return row, wrapErr(what, err)
	case len(rows) == 0:
		return row, none
	}
	return rows[0], nil
}

// querier is a database or a transaction on it.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// reader is a database.
type reader interface {
	querier
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// execer is a database or a transaction on it.
type execer interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// exec returns the number of written rows.
func exec(ctx context.Context, e execer, text string, args ...any) (int64, error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	r, err := e.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// ignoreErr returns err unless it was expected.
func ignoreErr(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}
