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

// asRefused makes futurejobs.ErrRefused of an error that a value is to blame for: the same batch
// would fail in the same way for ever.
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

// Postgres's codes for a statement that took longer than it may, and for one that waited longer for a lock.
const (
	statementTimeout = "57014"
	lockTimeout      = "55P03"
)

// isCode reports whether err is Postgres's answer with one of the codes.
func isCode(err error, codes ...string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains(codes, pg.Code)
}

// undone is the error of a batch that was not written: futurejobs.ErrRefused or futurejobs.ErrTooSlow where it is one.
func undone(err error) error {
	if isCode(err, statementTimeout, lockTimeout) {
		return fmt.Errorf("%w: %w", futurejobs.ErrTooSlow, err)
	}
	return asRefused(err)
}

// isDataErrorPG reports whether Postgres finds a value out of its range, of no use as what it is
// for, against a constraint, or too large. A key that is there twice is no value's fault.
func isDataErrorPG(code string) bool {
	switch code {
	case "23502", "23503", "23514", "54000":
		return true
	}
	return strings.HasPrefix(code, "22")
}

// isDataErrorSQLite is refusedCode for SQLite's primary codes.
func isDataErrorSQLite(code int) bool {
	return code == sqlite3.SQLITE_CONSTRAINT || code == sqlite3.SQLITE_TOOBIG || code == sqlite3.SQLITE_MISMATCH
}
