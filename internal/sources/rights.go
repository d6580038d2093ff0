package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// rights holds the excess permissions of a database user, as found by the newest connection. A read-only transaction
// does not restrict them: functions available to a superuser can read and write files of the server.
type rights struct {
	beyond atomic.Pointer[string] // nil: not connected yet
}

// findRights queries the user and its critical roles.
const findRights = `SELECT current_user, (SELECT string_agg(right_name, ', ' ORDER BY right_name) FROM (
	SELECT 'superuser' AS right_name FROM pg_catalog.pg_roles WHERE rolname = current_user AND rolsuper
	UNION ALL
	SELECT rolname::text FROM pg_catalog.pg_roles
	WHERE rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_signal_backend')
		AND pg_catalog.pg_has_role(current_user, oid, 'MEMBER')
		AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
) AS found)`

// load determines the permissions of a connection's user. A database without these catalogs, such as a
// Postgres-compatible one, is used without the check.
func (r *rights) load(ctx context.Context, c *pgconn.PgConn) error {
	result := c.ExecParams(ctx, findRights, nil, nil, nil, nil).Read()
	switch {
	case errors.As(result.Err, new(*pgconn.PgError)):
		return nil
	case result.Err != nil:
		return result.Err
	}
	beyond := ""
	if row := result.Rows; len(row) == 1 && len(row[0]) == 2 && row[0][1] != nil {
		beyond = caution(string(row[0][0]), string(row[0][1]))
	}
	r.beyond.Store(&beyond)
	return nil
}

// caution describes the permissions of a user, with a remedy.
func caution(user, found string) string {
	is := "is a superuser"
	if found != "superuser" {
		is = "belongs to " + strings.ReplaceAll(found, ", ", " and ")
	}
	return fmt.Sprintf("its user %q %s: with a lookup, a rule can do more than read tables, such as read files of the server; give the source a user "+
		"that may only select from the tables that rules need", user, is)
}

func (r *rights) caution() string {
	if beyond := r.beyond.Load(); beyond != nil {
		return *beyond
	}
	return ""
}
