package bench

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Server describes a Postgres before the measurement.
type Server struct {
	Version  string // such as 17.2
	Address  string // host and port, or the folder of a socket; several hosts are joined by "or"
	Database string
	Left     []Left
}

// Left is a schema of an earlier run that could not drop it, or of a concurrent run.
type Left struct {
	Schema string
	Bytes  int64
}

// ReadServer describes the server at a URL. It only reads.
func ReadServer(ctx context.Context, database string) (s Server, err error) {
	defer func() { err = called(ctx, err) }()
	conn, err := connect(ctx, database)
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close(ctx) }() // read-only connection
	s.Version, _, _ = strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	s.Address = hostsOf(conn.Config())
	if err := conn.QueryRow(ctx, `SELECT current_database()`).Scan(&s.Database); err != nil {
		return s, err
	}
	rows, err := conn.Query(ctx, `
SELECT n.nspname, coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'm', 'S')
WHERE n.nspname ~ '^`+schemaPrefix+`[0-9a-f]{8}$' GROUP BY 1 ORDER BY 1`)
	if err != nil {
		return s, err
	}
	s.Left, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Left])
	return s, err
}

// hostsOf returns the distinct hosts of a connection.
func hostsOf(c *pgx.ConnConfig) string {
	all := []string{hostOf(c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if host := hostOf(f.Host, f.Port); !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return strings.Join(all, " or ")
}

func hostOf(host string, port uint16) string {
	if strings.HasPrefix(host, "/") { // of a socket
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// written returns the bytes of WAL that the server has written since its creation.
func written(ctx context.Context, pool *pgxpool.Pool) (lsn int64, err error) {
	err = pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&lsn)
	return lsn, err
}

// execute runs statements, each in its own transaction.
func execute(ctx context.Context, pool *pgxpool.Pool, statements ...string) error {
	for _, statement := range statements {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
