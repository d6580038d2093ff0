package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"deadman/checks/lookup"
)

// errorScope is the scope of a Postgres error.
type errorScope int

const (
	scopeKey       errorScope = iota // of the key: a wrong value, a statement that took too long
	scopeSource                      // of the database as a whole
	scopeQuery                       // of the query, for all keys
	scopeStalePlan                   // of a plan prepared before the tables changed
)

// blamed classifies errors by SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func blamed(pg *pgconn.PgError) errorScope {
	switch {
	case pg.Code == "26000", pg.Code == "0A000" && pg.Routine == "RevalidateCachedQuery":
		return scopeStalePlan
	case pg.Code == "25006": // a write in a read-only transaction
		return scopeQuery
	case pg.Code == "53400": // a resource limit of one query, such as temp_file_limit
		return scopeKey
	case strings.HasPrefix(pg.Code, "57P"): // shutdown, crash, starting up, database dropped
		return scopeSource
	}
	switch class(pg) {
	case "08", "28", "3D", "53": // connection, authorization, no such database, resources
		return scopeSource
	case "42", "0A": // syntax, names and rights; not supported
		return scopeQuery
	}
	return scopeKey
}

// class returns the class of a SQLSTATE, its first two characters.
func class(pg *pgconn.PgError) string { return pg.Code[:min(2, len(pg.Code))] }

// pgError formats a Postgres error for people.
type pgError struct{ *pgconn.PgError }

func (s pgError) Error() string {
	text := fmt.Sprintf("%s (SQLSTATE %s)", s.Message, s.Code)
	if s.Code == "57014" {
		return text + "; the query took longer than the source's statement timeout"
	}
	return text
}

func (s pgError) Unwrap() error { return s.PgError }

// refusedQuery returns the error of an invalid query, with its position.
func refusedQuery(query string, pg *pgconn.PgError) error {
	where := ""
	if pg.Position > 0 {
		where = place(query, int(pg.Position)) + ": "
	}
	hint := ""
	if pg.Hint != "" {
		hint = "; " + pg.Hint
	}
	return fmt.Errorf("%w: %s%w%s", lookup.ErrQuestion, where, pgError{pg}, hint)
}

// place converts a position in characters, from 1, to line and column.
func place(query string, position int) string {
	rest := query
	for range position - 1 {
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	before := query[:len(query)-len(rest)]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

// unreachable returns the cause of a database failure, without the user and the password.
func unreachable(ctx context.Context, err error) error {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &pg):
		return pgError{pg}
	case ctx.Err() != nil:
		return errNoAnswer
	case errors.As(err, &connect):
		return connect.Unwrap()
	}
	return err
}

// unconnected returns the cause of a failure to get a connection.
func unconnected(ctx context.Context, err error) error {
	if err = unreachable(ctx, err); errors.Is(err, errNoAnswer) {
		return errNoConnection
	}
	return err
}

// errNoConnection is the error of a database that accepts no connection in time, or of an exhausted pool.
var errNoConnection = errors.New("no connection was established or became free in time")
