package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"deadman/internal/bench"
	"deadman/internal/store"
)

const (
	minPostgres     = 15            // oldest supported major version
	minDeadRows     = 100_000       // dead rows of a table, from which their share counts
	maxFreezeAge    = 1_000_000_000 // transactions; Postgres refuses writes at 2,000,000,000
	codePermissions = "42501"
	codeNoTable     = "42P01"
)

// postgresInspection checks a Postgres through one connection.
type postgresInspection struct {
	*inspection
	conn *pgx.Conn
	pool int32 // connections of a node
}

// postgres checks the server, its settings, replication and tables. known: the schema could be read.
func postgres(ctx context.Context, i *inspection, schema store.Schema, known bool) {
	const name = "DEADMAN_DATABASE_URL"
	cfg, err := store.Address(name, i.DatabaseURL)
	if err != nil {
		i.problem("database server", Failed, err.Error(), "correct "+name)
		return
	}
	conn, err := store.Connect(ctx, name, i.DatabaseURL)
	if err != nil {
		i.problem("database server", Failed, err.Error(), "correct "+name+", or the server")
		return
	}
	defer func() { _ = conn.Close(ctx) }() // nothing was written
	p := postgresInspection{i, conn, cfg.MaxConns}
	tables := tableInspection{p, schema, known}
	for _, check := range []struct {
		name string
		run  func(context.Context, string) error
	}{
		{"database schema", tables.migrate},
		{"database server", p.server},
		{"database pooler", p.pooler},
		{"database clock", p.clock},
		{"database settings", p.settings},
		{"database replication", p.replication},
		{"replication slots", p.slots},
		{"database vacuum", tables.vacuum},
		{"long transactions", tables.transactions},
		{"database connections", tables.connections},
		{"database user", tables.user},
		{"rules", p.rules},
		{"database id", p.id},
	} {
		if err := check.run(ctx, check.name); err != nil {
			i.problem(check.name, Unknown, err.Error(), remedyOf(err))
		}
	}
	if state := conn.PgConn(); cfg.ConnConfig.TLSConfig != nil {
		i.tlsOf("database certificate", "the certificate of the database", state.Conn())
	}
}

// remedyOf returns the remedy for a query that failed.
func remedyOf(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == codePermissions {
		return "grant pg_monitor to the user, or run deadman doctor with another DEADMAN_DATABASE_URL"
	}
	return "run deadman doctor again"
}

// server checks the version, and that the server is no standby.
func (p postgresInspection) server(ctx context.Context, check string) error {
	var number int
	var version string
	var standby bool
	var size uint64
	if err := p.conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		pg_is_in_recovery(), pg_database_size(current_database())`).Scan(&number, &version, &standby, &size); err != nil {
		return err
	}
	switch {
	case number/10_000 < minPostgres:
		p.problem(check, Failed, "PostgreSQL "+version+" is too old", fmt.Sprintf("upgrade it to PostgreSQL %d or newer", minPostgres))
	case standby:
		p.problem(check, Failed, "the server is a standby, which refuses writes", "write target_session_attrs=read-write and all hosts into DEADMAN_DATABASE_URL")
	default:
		p.ok(check, "PostgreSQL %s, primary, %s", version, humanize.IBytes(size))
	}
	return nil
}

// id reads the id of the database. A database without a schema has none.
func (p postgresInspection) id(ctx context.Context, _ string) error {
	err := p.conn.QueryRow(ctx, `SELECT value FROM setting WHERE name = 'database_id'`).Scan(&p.database)
	var unknown *pgconn.PgError
	if errors.Is(err, pgx.ErrNoRows) || errors.As(err, &unknown) && unknown.Code == codeNoTable {
		return nil
	}
	return err
}

// pooler detects a pooler between this machine and the server.
func (p postgresInspection) pooler(ctx context.Context, check string) error {
	pooled, err := store.IsPooled(ctx, p.conn)
	if err != nil {
		return err
	}
	switch mode := p.conn.Config().DefaultQueryExecMode; {
	case pooled && store.ChoosesExecMode(p.DatabaseURL) && mode != pgx.QueryExecModeCacheDescribe:
		p.problem(check, Warning, fmt.Sprintf("a pooler, such as PgBouncer, is between the node and the server, and DEADMAN_DATABASE_URL chooses %s: the node prepares statements", mode),
			"remove default_query_exec_mode from DEADMAN_DATABASE_URL, unless the pooler keeps prepared statements")
	case pooled:
		p.ok(check, "a pooler is in between, and the node prepares no statements")
	default:
		p.ok(check, "none is in between")
	}
	return nil
}

func (p postgresInspection) clock(ctx context.Context, check string) error {
	sent := p.now()
	var there time.Time
	if err := p.conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return err
	}
	p.skew(check, "the database", sent, there, p.now())
	return nil
}

// settings checks the server's settings for durability and speed.
func (p postgresInspection) settings(ctx context.Context, check string) error {
	all, err := bench.ServerAdvice(ctx, p.conn)
	if err != nil {
		return err
	}
	for _, a := range all {
		state := Warning
		if a.Unsafe {
			state = Failed
		}
		p.problem(check, state, a.Problem, a.Remedy)
	}
	if len(all) == 0 {
		p.ok(check, "durable, and large enough for many jobs")
	}
	return nil
}

// replication checks whether commits wait for a standby, and whether a standby is connected.
func (p postgresInspection) replication(ctx context.Context, check string) error {
	var names string
	var standbys, synchronous, hidden int
	if err := p.conn.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names'), count(*),
		count(*) FILTER (WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')), count(*) FILTER (WHERE sync_state IS NULL)
		FROM pg_stat_replication`).Scan(&names, &standbys, &synchronous, &hidden); err != nil {
		return err
	}
	switch {
	case hidden > 0:
		p.problem(check, Unknown, fmt.Sprintf("%d standbys are connected, and the user may not see their state", standbys), "grant pg_monitor to the user")
	case names != "" && synchronous == 0:
		p.problem(check, Failed, "commits wait for a synchronous standby (synchronous_standby_names = "+names+"), and none is connected",
			"start the standby, or empty synchronous_standby_names until it is back")
	case names != "":
		p.ok(check, "%d standbys, %d of them synchronous: a failover loses no commit", standbys, synchronous)
	case standbys > 0:
		p.problem(check, Warning, fmt.Sprintf("%d standbys, all asynchronous: a failover may lose the last commits", standbys),
			"set synchronous_standby_names; docs/operations/failover-and-restore.md says what a loss means")
	default:
		p.ok(check, "no standby")
	}
	return nil
}

// slots checks for replication slots without a reader: the server keeps the log for their readers until the disk is full.
func (p postgresInspection) slots(ctx context.Context, check string) error {
	rows, err := p.conn.Query(ctx, `SELECT slot_name, coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
		ELSE pg_current_wal_lsn() END, restart_lsn), 0)::bigint FROM pg_replication_slots WHERE NOT active ORDER BY 2 DESC`)
	if err != nil {
		return err
	}
	var name string
	var kept uint64
	var all []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kept}, func() error {
		all = append(all, fmt.Sprintf("%s (%s)", name, humanize.IBytes(kept)))
		return nil
	}); err != nil {
		return err
	}
	if len(all) > 0 {
		p.problem(check, Warning, "slots without a reader, with the log that is kept for them: "+strings.Join(all, ", "),
			"start their readers, or drop the slots with pg_drop_replication_slot")
		return nil
	}
	p.ok(check, "none without a reader")
	return nil
}

// texts returns the rows of a query with one column.
func (p postgresInspection) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := p.conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
