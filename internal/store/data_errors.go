package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	futurejobs "deadman/future_jobs"
)

// asRefused returns futurejobs.ErrRefused for an error caused by a value: the same batch would fail in the same way
// forever.
func asRefused(err error) error {
	var pg *pgconn.PgError
	var lite *sqlitedriver.Error
	switch {
	case errors.As(err, &pg) && isDataErrorPG(pg.Code):
		return fmt.Errorf("%w: %s", futurejobs.ErrRefused, pg.Message)
	case errors.As(err, &lite) && isDataErrorSQLite(lite.Code()&0xff):
		return fmt.Errorf("%w: %w", futurejobs.ErrRefused, err)
	}
	return err
}

// Postgres error codes for a statement that exceeded its timeout and for one that exceeded its lock timeout.
const (
	statementTimeout = "57014"
	lockTimeout      = "55P03"
)

// isCode reports whether err is a Postgres error with one of the codes.
func isCode(err error, codes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(codes, pg.Code)
}

// undone returns the error of a batch that was not written, as futurejobs.ErrRefused or futurejobs.ErrTooSlow if it is
// one.
func undone(err error) error {
	if isCode(err, statementTimeout, lockTimeout) {
		return fmt.Errorf("%w: %w", futurejobs.ErrTooSlow, err)
	}
	return asRefused(err)
}

// isDataErrorPG reports whether Postgres rejected a value as out of range, invalid, against a constraint, or too large.
// A duplicate key is not an error of the value.
func isDataErrorPG(code string) bool {
	switch code {
	case "23502", "23503", "23514", "54000":
		return true
	}
	return strings.HasPrefix(code, "22")
}

// isDataErrorSQLite is isDataErrorPG for SQLite's primary codes.
func isDataErrorSQLite(code int) bool {
	return code == sqlite3.SQLITE_CONSTRAINT || code == sqlite3.SQLITE_TOOBIG || code == sqlite3.SQLITE_MISMATCH
}
