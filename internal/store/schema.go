package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	futurejobs "deadman/future_jobs"
	"deadman/migrations"
)

// The tables that the migration itself needs.
const (
	versionTable = "schema_version"
	lockTable    = "schema_lock"
)

// schemaUnknown is the version assumed for a node that reports none: the last version before node had the column
// schema_known.
const schemaUnknown = 16

// Schema is the schema of a database, as one program sees it.
type Schema struct {
	Applied int64             // the version of the database; 0: it is empty
	Known   int64             // the newest version that this program supports
	Pending []string          // the files of the migrations to apply, in order
	Nodes   []futurejobs.Node // live nodes, by id
}

// TooNew reports whether a schema is too new for a program: a program works with the version that it knows and the next
// one.
func TooNew(applied, known int64) bool { return applied > known+1 }

// Behind returns the live nodes that could not work with the schema after this program migrates it.
func (s Schema) Behind() (behind []futurejobs.Node) {
	for _, n := range s.Nodes {
		if len(s.Pending) > 0 && TooNew(s.Known, n.Schema) {
			behind = append(behind, n)
		}
	}
	return behind
}

// tooNew returns the error of a program that cannot work with the schema, or nil.
func (s Schema) tooNew() error {
	if !TooNew(s.Applied, s.Known) {
		return nil
	}
	return fmt.Errorf("%w: it is at version %d and this program knows %d; run the version of deadman that migrated it, or a newer one",
		ErrSchemaTooNew, s.Applied, s.Known)
}

// nodesNamed is the number of nodes that an error names.
const nodesNamed = 5

// held returns the error of a program that must not migrate because of live nodes, or nil.
func (s Schema) held() error {
	behind := s.Behind()
	if len(behind) == 0 {
		return nil
	}
	names := make([]string, 0, nodesNamed)
	for _, n := range behind[:min(len(behind), nodesNamed)] {
		names = append(names, fmt.Sprintf("%s (deadman %s, since %s, works up to version %d)", n.Name, n.Version, n.StartedAt.UTC().Format(time.RFC3339), n.Schema+1))
	}
	others := ""
	if n := len(behind) - len(names); n > 0 {
		others = fmt.Sprintf(" and %d others", n)
	}
	return fmt.Errorf("%w: this program brings the schema from version %d to %d; first stop or replace node %s%s, or leave it behind with deadman migrate --force",
		ErrNodeBehind, s.Applied, s.Known, strings.Join(names, ", "), others)
}

// migrator brings the schema up to date.
type migrator struct{ *database }

// migrate applies the migrations that this program knows, unless a live node could not follow and leaveBehind is false.
// A schema that is one version newer is used as it is; migrations only add.
func (s *migrator) migrate(ctx context.Context, leaveBehind bool) error {
	schema, err := s.Schema(ctx)
	if err != nil {
		return err
	}
	s.known = schema.Known
	if err := schema.tooNew(); err != nil || len(schema.Pending) == 0 {
		return err
	}
	if err := schema.held(); err != nil && !leaveBehind {
		return err
	}
	p, err := s.provider()
	if err != nil {
		return wrapErr("migrations", err)
	}
	if _, err := p.Up(ctx); err != nil {
		if isCode(err, notAllowed) {
			err = fmt.Errorf("%w; have deadman migrate run by the user who owns the tables (deploy/README.md)", err)
		}
		return wrapErr("migrate", err)
	}
	return nil
}

// Schema reads the state of the schema.
func (s *migrator) Schema(ctx context.Context) (schema Schema, err error) {
	applied, err := s.version(ctx)
	if err != nil {
		return schema, wrapErr("schema", err)
	}
	if schema, err = unmigrated(s.alone, applied); err != nil {
		return schema, wrapErr("migrations", err)
	}
	if s.alone || schema.Applied == 0 { // other nodes on a file are gone
		return schema, nil
	}
	if schema.Nodes, err = s.schemaNodes(ctx, schema.Applied); err != nil {
		return schema, wrapErr("live nodes", err)
	}
	return schema, nil
}

// schemaNodes returns the live nodes with the schema version that each knows, at any version of the schema.
func (s *migrator) schemaNodes(ctx context.Context, applied int64) ([]futurejobs.Node, error) {
	nodes, err := query(ctx, s.db, func(row scanner, n *futurejobs.Node) error {
		return row.Scan(&n.ID, &n.Name, &n.Version, at(&n.StartedAt), at(&n.SeenAt), at(&n.ExpiresAt))
	}, `SELECT id, name, version, started_at, seen_at, expires_at FROM node WHERE expires_at > now() ORDER BY id`)
	if err != nil {
		return nil, err
	}
	for i := range nodes { // a node migrated the schema to its version, so it knows no newer one
		nodes[i].Schema = min(applied, schemaUnknown)
	}
	if applied <= schemaUnknown {
		return nodes, nil
	}
	type nodeSchema struct {
		id    string
		known int64
	}
	all, err := query(ctx, s.db, func(row scanner, t *nodeSchema) error { return row.Scan(&t.id, &t.known) },
		`SELECT id, schema_known FROM node WHERE schema_known IS NOT NULL`)
	for _, t := range all {
		if i := slices.IndexFunc(nodes, func(n futurejobs.Node) bool { return n.ID == t.id }); i >= 0 {
			nodes[i].Schema = t.known
		}
	}
	return nodes, err
}

// unmigrated returns the schema of a database at a version, without its nodes.
func unmigrated(alone bool, applied int64) (Schema, error) {
	schema := Schema{Applied: applied}
	_, files, folder := migrationsOf(alone)
	names, err := fs.Glob(files, folder+"/*.sql") // in order
	if err != nil {
		return schema, err
	}
	for _, name := range names {
		if schema.Known, err = goose.NumericComponent(name); err != nil {
			return schema, err
		}
		if schema.Known > applied {
			schema.Pending = append(schema.Pending, path.Base(name))
		}
	}
	return schema, nil
}

func migrationsOf(alone bool) (dialect goose.Dialect, files fs.FS, folder string) {
	if alone {
		return goose.DialectSQLite3, migrations.SQLite, "sqlite"
	}
	return goose.DialectPostgres, migrations.Postgres, "postgres"
}

// provider returns the migrations for the store's database.
func (s *migrator) provider() (*goose.Provider, error) {
	dialect, files, folder := migrationsOf(s.alone)
	options := []goose.ProviderOption{goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true)}
	if !s.alone {
		l, err := lock.NewPostgresTableLocker(
			lock.WithTableName(lockTable),
			lock.WithTableLockTimeout(250*time.Millisecond, 240), // a minute: longer than a dead node's lease
			lock.WithTableLogger(slog.New(slog.DiscardHandler)),  // errors are returned
		)
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithLocker(l))
	}
	sub, err := fs.Sub(files, folder)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(dialect, s.db, sub, options...)
}

// version returns the schema's version, 0 for an empty database, or ErrForeignSchema.
func (s *migrator) version(ctx context.Context) (int64, error) {
	tables, err := query(ctx, s.db, func(row scanner, name *string) error { return row.Scan(name) }, s.tables())
	if err != nil {
		return 0, err
	}
	ours := make(map[string]bool, len(tables))
	for _, t := range tables {
		ours[t] = true
	}
	if !ours[versionTable] {
		delete(ours, lockTable) // another node has started the migration
		for t := range ours {
			return 0, foreign("it holds the table " + t + " but no " + versionTable)
		}
		return 0, nil
	}
	var v int64
	if err := s.db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&v); err != nil {
		if errors.Is(asUnavailable(err), ErrUnavailable) || ctx.Err() != nil {
			return 0, err
		}
		if isCode(err, "42501") { // insufficient_privilege
			return 0, fmt.Errorf("%w; grant the user the permissions of deploy/postgres-roles.sql", err)
		}
		return 0, foreign("its table " + versionTable + " is another program's")
	}
	if v > 0 && !ours["future_job"] {
		return 0, foreign("it has a " + versionTable + " but no future_job")
	}
	return v, nil
}

func foreign(why string) error {
	return fmt.Errorf("%w: %s; give deadman a database of its own", ErrForeignSchema, why)
}

// seed creates the shards of the database: the stored number, or count for a new database.
func (s *migrator) seed(ctx context.Context, count int) error {
	return s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		added, err := tx.ExecContext(ctx, `INSERT INTO setting (name, value) VALUES ('shards', $1) ON CONFLICT DO NOTHING`,
			strconv.Itoa(count))
		if err != nil {
			return err
		}
		if n, err := added.RowsAffected(); err != nil {
			return err
		} else if n > 0 { // a new database
			if err := identify(ctx, tx, uuid.NewString()); err != nil {
				return err
			}
		}
		var stored string
		if err := tx.QueryRowContext(ctx, `SELECT value FROM setting WHERE name = 'shards'`).Scan(&stored); err != nil {
			return err
		}
		n, err := strconv.Atoi(stored)
		if err != nil || n < 1 || n > MaxShards {
			return errors.Join(fmt.Errorf("the setting shards is %q, not a number from 1 to %d", stored, MaxShards), err)
		}
		s.shards = n
		return seedLeases(ctx, tx, n, now)
	})
}

// DatabaseID returns the id of the database, also of its copies and backups. A database of an earlier version without an id
// gets the given one; empty: a random one.
func (s *migrator) DatabaseID(ctx context.Context, otherwise string) (id string, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		if err := identify(ctx, tx, cmp.Or(otherwise, uuid.NewString())); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT value FROM setting WHERE name = 'database_id'`).Scan(&id)
	})
	if err != nil {
		return "", wrapErr("id of the database", err)
	}
	return id, nil
}

// identify gives a database without an id the given one.
func identify(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO setting (name, value) VALUES ('database_id', $1) ON CONFLICT DO NOTHING`, id)
	return err
}

func seedLeases(ctx context.Context, tx *sql.Tx, n int, now time.Time) error {
	var have int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM shard_lease`).Scan(&have); err != nil {
		return err
	}
	for shard := have; shard < n; shard++ {
		if _, err := tx.ExecContext(ctx,
			`INSERT INTO shard_lease (shard, epoch, expires_at) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING`, shard, now); err != nil {
			return err
		}
	}
	return nil
}
