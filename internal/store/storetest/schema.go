package storetest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/internal/store"
	"deadman/migrations"
)

// unseed removes the rows of the first opening: a database copied from a template gets an id, and the number of shards
// that its first opening asks for, as a new database does.
const unseed = `DELETE FROM shard_lease; DELETE FROM setting WHERE name IN ('shards', 'database_id')`

// template is the name of the database on the shared cluster that has the present schema and no connections. It is made
// once for all packages that use the cluster.
var template = sync.OnceValues(func() (string, error) {
	super, err := shared()
	if err != nil {
		return "", err
	}
	name, err := templateName()
	if err != nil {
		return "", err
	}
	if err := makeTemplate(super, name); err != nil {
		return "", fmt.Errorf("template database: %w", err)
	}
	return name, nil
})

// templateName returns a name that changes with the migrations.
func templateName() (string, error) {
	sum, err := sumOf(migrations.Postgres)
	return "deadman_template_" + sum, err
}

func sumOf(files embed.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		fmt.Fprintf(sum, "%s %d %s", path, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:6]), err
}

// templateLock is the key of the advisory lock under which a process makes the template.
const templateLock = 5471_2290

// makeTemplate creates the template unless another process has done so. A template that permits connections was left
// unfinished by a process that ended.
func makeTemplate(super, name string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, super)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }() // it releases the lock
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return err
	}
	var finished bool
	err = c.QueryRow(ctx, `SELECT NOT datallowconn FROM pg_database WHERE datname = $1`, name).Scan(&finished)
	if finished || err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	for _, statement := range []string{`DROP DATABASE IF EXISTS ` + name + ` WITH (FORCE)`, `CREATE DATABASE ` + name} {
		if _, err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	dsn, err := withDatabase(super, name)
	if err != nil {
		return err
	}
	if err := migrated(ctx, store.Options{DatabaseURL: dsn}); err != nil {
		return err
	}
	if err := execute(dsn, unseed); err != nil {
		return err
	}
	_, err = c.Exec(ctx, `ALTER DATABASE `+name+` ALLOW_CONNECTIONS false`)
	return err
}

// migrated opens and closes a new database.
func migrated(ctx context.Context, o store.Options) error {
	o.Shards, o.Log = 1, slog.New(slog.DiscardHandler)
	s, err := store.Open(ctx, o)
	if err != nil {
		return err
	}
	return s.Close()
}

// file is the content of a SQLite database with the present schema, made once for the process.
var file = sync.OnceValues(func() (content []byte, err error) {
	dir, err := os.MkdirTemp("", "deadman-template-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The clock of the migrations precedes the virtual time of every test.
	before := func() time.Time { return time.Unix(0, 0) }
	if err := migrated(context.Background(), store.Options{DataDir: dir, Clock: before}); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, store.DatabaseFile)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(unseed)
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// SQLite puts a database with the present schema and no shards into a data folder.
func SQLite(tb testing.TB, dir string) {
	tb.Helper()
	content, err := file()
	if err != nil {
		tb.Fatalf("template of SQLite: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, store.DatabaseFile), content, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// DataDir returns a data folder with a SQLite database that has the present schema, as SQLite puts it there.
func DataDir(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	SQLite(tb, dir)
	return dir
}
