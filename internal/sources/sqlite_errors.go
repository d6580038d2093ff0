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

// isOfSQLite reports whether an error in the middle of a query is to blame on something. What
// is not said by SQLite is of the key: it is about a value, or that it took too long.
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

// saidBySQLite is an error of one key, for people.
func saidBySQLite(err error, timeout time.Duration) error {
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

// refusedBySQLite is an error of a query that SQLite does not compile or run, whatever it is
// asked about; or of the file.
func refusedBySQLite(ctx context.Context, err error) error {
	if ctx.Err() != nil || isOfSQLite(err, scopeSource) || errors.Is(err, lookup.ErrQuestion) {
		return unreachableFile(ctx, err)
	}
	return fmt.Errorf("%w: %w", lookup.ErrQuestion, err)
}

// unreachableFile is why a file can't be asked.
func unreachableFile(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errNoAnswer
	}
	return err
}
