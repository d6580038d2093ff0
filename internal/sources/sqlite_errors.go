package sources

import (
	"context"
	"errors"
	"fmt"
	"time"

	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"deadman/checks/lookup"
)

// isOfSQLite reports whether an error during a query has the scope. Errors not reported by SQLite belong to the key:
// an invalid value or a timeout.
func isOfSQLite(err error, b errorScope) bool {
	var e *sqlitedriver.Error
	if !errors.As(err, &e) {
		return b == scopeKey
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH:
		return b == scopeQuery
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM, sqlite3.SQLITE_SCHEMA:
		return b == scopeSource
	}
	return b == scopeKey
}

// sqliteKeyError returns the error of one key for people.
func sqliteKeyError(err error, timeout time.Duration) error {
	var e *sqlitedriver.Error
	late := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_INTERRUPT
	switch {
	case late:
		return fmt.Errorf("the query took longer than %s", timeout.Round(time.Millisecond))
	case errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_TOOBIG:
		return errTooLong
	}
	return err
}

// refusedBySQLite returns the error of a query that SQLite can't compile or run for any key, or of the file.
func refusedBySQLite(ctx context.Context, err error) error {
	if ctx.Err() != nil || isOfSQLite(err, scopeSource) || errors.Is(err, lookup.ErrQuestion) {
		return unreachableFile(ctx, err)
	}
	return fmt.Errorf("%w: %w", lookup.ErrQuestion, err)
}

// unreachableFile returns the cause of a file failure.
func unreachableFile(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errNoAnswer
	}
	return err
}
