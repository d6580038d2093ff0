package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	futurejobs "deadman/future_jobs"
)

// wrapErr wraps the error of an operation, as ErrUnavailable if the database is unreachable.
func wrapErr(operation string, err error) error {
	return fmt.Errorf("%s: %w", operation, asUnavailable(err))
}

// unavailableError is the error of an unreachable database, in one line. It also wraps the cause.
type unavailableError struct{ err error }

func (a unavailableError) Error() string {
	what := ErrUnavailable.Error()
	if isCode(a.err, statementTimeout) || errors.Is(a.err, futurejobs.ErrTooSlow) {
		what = "the database takes too long"
	}
	return what + ": " + oneLine(a.err)
}

func (a unavailableError) Unwrap() []error { return []error{ErrUnavailable, a.err} }

// asUnavailable returns ErrUnavailable for an error that means that the database is unreachable or does not answer in
// time. Cancellation by the caller is returned as it is.
func asUnavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) || !isUnavailable(err) {
		return err
	}
	return unavailableError{err}
}

func isUnavailable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return isUnavailableCode(pg.Code)
	}
	for _, lost := range []error{
		context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return errors.As(err, new(net.Error)) || errors.As(err, new(*pgconn.ConnectError)) || pgconn.SafeToRetry(err)
}

// isUnavailableCode reports whether Postgres shuts down, starts, is full, has no such database, or exceeded the time of a
// transaction.
func isUnavailableCode(code string) bool {
	return strings.HasPrefix(code, "08") || slices.Contains([]string{
		"57P01", "57P02", "57P03", // shut down, crashed, starting
		"3D000",                   // dropped, until it is restored
		"53300",                   // too many connections
		statementTimeout, "25P03", // the bounds of a transaction
	}, code)
}

// oneLine returns a driver's error on one line: each cause once, without its wrapping.
func oneLine(err error) string {
	causes := causesOf(err, nil)
	if len(causes) == 0 {
		return strings.Join(strings.Fields(err.Error()), " ")
	}
	return strings.Join(causes, "; ")
}

// causesOf appends the errors of the network and of Postgres to known.
func causesOf(err error, known []string) []string {
	switch e := err.(type) { //nolint:errorlint // the chain is walked here
	case *net.OpError, *pgconn.PgError:
		if !slices.Contains(known, e.Error()) {
			known = append(known, e.Error())
		}
	case interface{ Unwrap() error }:
		return causesOf(e.Unwrap(), known)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			known = causesOf(one, known)
		}
	}
	return known
}
