package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"deadman/internal/store"
)

// tableInspection checks the tables, their users and their connections.
type tableInspection struct {
	postgresInspection
	schema store.Schema
	known  bool // schema could be read
}

// migrate checks that the user may apply the pending migrations, as a node does at its start.
func (p tableInspection) migrate(ctx context.Context, check string) error {
	if len(p.schema.Pending) == 0 || len(p.schema.Behind()) > 0 {
		return nil
	}
	var user, schema string
	var may bool
	if err := p.conn.QueryRow(ctx, `SELECT current_user, coalesce(current_schema(), current_setting('search_path')),
		coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)`).Scan(&user, &schema, &may); err != nil {
		return err
	}
	what := fmt.Sprintf("%d migrations are pending", len(p.schema.Pending))
	if p.schema.Applied == 0 {
		what = "none yet"
	}
	switch {
	case !may:
		p.problem(check, Failed, fmt.Sprintf("%s, and %s may not create tables in the schema %s: a node of this version does not start", what, user, schema),
			"run deadman migrate with a DEADMAN_DATABASE_URL of the schema's owner, deadman_owner in deploy/postgres-roles.sql")
	case p.schema.Applied == 0:
		p.ok(check, firstStart)
	default:
		p.problem(check, Warning, pendingMigrations(p.schema), migrateApart)
	}
	return nil
}

// vacuum checks that dead rows are removed: each check of a job leaves one.
func (p tableInspection) vacuum(ctx context.Context, check string) error {
	var on bool
	var age int64
	if err := p.conn.QueryRow(ctx, `SELECT current_setting('autovacuum')::bool AND current_setting('track_counts')::bool,
		(SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database())`).Scan(&on, &age); err != nil {
		return err
	}
	off, err := p.texts(ctx, `SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
		AND array_to_string(reloptions, ' ') ~ 'autovacuum_enabled=(false|off|no|0)' ORDER BY 1`)
	if err != nil {
		return err
	}
	bloated, err := p.texts(ctx, `SELECT format('%s (%s dead rows beside %s)', relname, n_dead_tup, n_live_tup) FROM pg_stat_user_tables
		WHERE schemaname = current_schema() AND n_dead_tup > $1 AND n_dead_tup > n_live_tup ORDER BY n_dead_tup DESC LIMIT 5`, minDeadRows)
	if err != nil {
		return err
	}
	found := len(p.findings)
	if !on {
		p.problem(check, Failed, "autovacuum or track_counts is off: tables grow without end", "set both to on")
	}
	if len(off) > 0 {
		p.problem(check, Failed, "autovacuum is off for the tables "+strings.Join(off, ", "), "ALTER TABLE … RESET (autovacuum_enabled)")
	}
	if age > maxFreezeAge {
		p.problem(check, Failed, fmt.Sprintf("the oldest transaction is %s transactions old; the server refuses writes at 2,000,000,000", humanize.Comma(age)),
			"run VACUUM (FREEZE) on the database, and look for what stops autovacuum")
	}
	if len(bloated) > 0 {
		p.problem(check, Warning, "autovacuum does not keep up: "+strings.Join(bloated, ", "), "end long transactions; lower autovacuum_vacuum_cost_delay")
	}
	if len(p.findings) == found {
		p.ok(check, "autovacuum keeps up")
	}
	return nil
}

// transactions checks for transactions that stop vacuum from removing rows.
func (p tableInspection) transactions(ctx context.Context, check string) error {
	var open, prepared int
	var since time.Duration
	if err := p.conn.QueryRow(ctx, `SELECT count(*), coalesce(max(now() - xact_start), '0'), (SELECT count(*) FROM pg_prepared_xacts WHERE now() - prepared > $1)
		FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND now() - xact_start > $1`,
		p.longest).Scan(&open, &since, &prepared); err != nil {
		return err
	}
	if open+prepared > 0 {
		p.problem(check, Warning, fmt.Sprintf("%d transactions are open for up to %s, and %d prepared ones wait: vacuum keeps all rows that they may see",
			open, since.Round(time.Minute), prepared), "end them; set idle_in_transaction_session_timeout for other programs")
		return nil
	}
	p.ok(check, "none is older than %d minutes", int(p.longest.Minutes()))
	return nil
}

// connections checks that the server has room for the pool of one more node.
func (p tableInspection) connections(ctx context.Context, check string) error {
	var limit, used int
	if err := p.conn.QueryRow(ctx, `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'`).Scan(&limit, &used); err != nil {
		return err
	}
	if free := limit - used; free < int(p.pool) {
		p.problem(check, Warning, fmt.Sprintf("%d of %d connections are in use, and a node opens up to %d", used, limit, p.pool),
			"raise max_connections, or set pool_max_conns in DEADMAN_DATABASE_URL")
		return nil
	}
	p.ok(check, "%d of %d are in use; a node opens up to %d", used, limit, p.pool)
	return nil
}

// user checks that the user may read and change all tables, and little else.
func (p tableInspection) user(ctx context.Context, check string) error {
	var name string
	var super bool
	if err := p.conn.QueryRow(ctx, `SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user`).Scan(&name, &super); err != nil {
		return err
	}
	if super {
		p.problem(check, Warning, name+" is a superuser: a defect of a node, or its stolen password, reaches the whole server",
			"let nodes run as a user of their own; deploy/postgres-roles.sql creates it")
		return nil
	}
	if p.known && p.schema.Applied == 0 {
		p.ok(check, "%s is no superuser; there are no tables yet", name)
		return nil
	}
	denied, err := p.texts(ctx, `SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
		AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE')
		AND has_table_privilege(c.oid, 'DELETE')) ORDER BY 1`)
	if err != nil {
		return err
	}
	if len(denied) > 0 {
		p.problem(check, Failed, name+" may not read and change the tables "+strings.Join(denied, ", "), "grant the permissions of deploy/postgres-roles.sql")
		return nil
	}
	p.ok(check, "%s is no superuser, and reads and changes all tables", name)
	return nil
}
