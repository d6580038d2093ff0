package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"deadman/migrations"
)

// The tables that migrating itself needs.
const (
	versionTable = "schema_version"
	lockTable    = "schema_lock"
)

// migrate brings the schema up to the newest that this program knows. A schema that is one
// step newer is worked with as it is; migrations only add.
func (s *Store) migrate(ctx context.Context) error {
	p, err := s.provider()
	if err != nil {
		return failed("migrations", err)
	}
	have, err := s.version(ctx)
	if err != nil {
		return failed("schema", err)
	}
	sources := p.ListSources()
	known := sources[len(sources)-1].Version
	switch {
	case have > known+1:
		return fmt.Errorf("%w: it is at version %d and this program knows %d; run the version of deadman that migrated it, or a newer one",
			ErrSchemaTooNew, have, known)
	case have >= known:
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return failed("migrate", err)
	}
	return nil
}

// provider knows the migrations of the store's database.
func (s *Store) provider() (*goose.Provider, error) {
	dialect, files, folder := goose.DialectPostgres, fs.FS(migrations.Postgres), "postgres"
	options := []goose.ProviderOption{goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true)}
	if s.alone {
		dialect, files, folder = goose.DialectSQLite3, migrations.SQLite, "sqlite"
	} else {
		l, err := lock.NewPostgresTableLocker(
			lock.WithTableName(lockTable),
			lock.WithTableLockTimeout(250*time.Millisecond, 240), // a minute: longer than a dead node's lease
			lock.WithTableLogger(slog.New(slog.DiscardHandler)),  // what matters is returned
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
func (s *Store) version(ctx context.Context) (int64, error) {
	tables, err := query(ctx, s.db, func(row scanner, name *string) error { return row.Scan(name) }, s.tables())
	if err != nil {
		return 0, err
	}
	ours := make(map[string]bool, len(tables))
	for _, t := range tables {
		ours[t] = true
	}
	if !ours[versionTable] {
		delete(ours, lockTable) // another node has begun
		for t := range ours {
			return 0, foreign("it holds the table " + t + " but no " + versionTable)
		}
		return 0, nil
	}
	var v int64
	if err := s.db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&v); err != nil {
		if errors.Is(away(err), ErrUnavailable) || ctx.Err() != nil {
			return 0, err
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

// seed makes the shards that the database was created with, or is created with now.
func (s *Store) seed(ctx context.Context, wished int) error {
	return s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO setting (name, value) VALUES ('shards', $1) ON CONFLICT DO NOTHING`,
			strconv.Itoa(wished)); err != nil {
			return err
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
