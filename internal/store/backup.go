package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	sqlitedriver "modernc.org/sqlite"
)

// ErrDamaged means that the copy of a database failed SQLite's check.
var ErrDamaged = errors.New("the copy of the database is damaged")

// LockFolder locks a data folder until the result is closed, or returns ErrLocked while a node works on the folder.
func LockFolder(dir string) (io.Closer, error) { return lockDir(dir) }

// CopyFile copies the SQLite database of a data folder to a new file, in the state of one moment, and checks the copy. A
// node on the folder continues to write. The duration grows with the file, and ctx cannot interrupt the copy. at is the
// time before the copy. Errors: fs.ErrNotExist for a folder without a database, ErrDamaged for a failed check.
func CopyFile(ctx context.Context, dir, to string) (at time.Time, err error) {
	if dir, err = filepath.Abs(dir); err == nil { // SQLite opens URLs, and theirs have no relative path
		to, err = filepath.Abs(to)
	}
	if err != nil {
		return at, fmt.Errorf("data folder: %w", err)
	}
	from := filepath.Join(dir, DatabaseFile)
	if _, err := os.Stat(from); err != nil {
		return at, fmt.Errorf("database: %w", err)
	}
	if err := keepFile(to, slog.New(slog.DiscardHandler)); err != nil { // the mode is set before the content
		return at, err
	}
	timed, err := newDriver(time.Now)
	if err != nil {
		return at, fmt.Errorf("sqlite: %w", err)
	}
	at = time.Now()
	if err := copySQLite(ctx, timed, from, to); err != nil {
		return at, fmt.Errorf("copy %s: %w", from, err)
	}
	return at, checkSQLite(ctx, timed, to)
}

// online is a connection that copies its database page by page, in one read transaction.
type online interface {
	NewBackup(to string) (*sqlitedriver.Backup, error)
}

func copySQLite(ctx context.Context, timed *sqlitedriver.Driver, from, to string) (err error) {
	db := sql.OpenDB(connector{timed, dataSource(from, "deferred", "query_only(1)")})
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return conn.Raw(func(c any) error {
		b, err := c.(online).NewBackup(to)
		if err != nil {
			return err
		}
		more, err := b.Step(-1) // all pages at once: a step of some begins again whenever the node writes
		if err == nil && more {
			err = errors.New("SQLite did not copy all pages")
		}
		return errors.Join(err, b.Finish())
	})
}

// checkSQLite runs SQLite's check of all pages on a file that no other process has open.
func checkSQLite(ctx context.Context, timed *sqlitedriver.Driver, file string) (err error) {
	db := sql.OpenDB(connector{timed, dataSource(file, "deferred")})
	defer func() { err = errors.Join(err, db.Close()) }()
	var result string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&result); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if result != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, result)
	}
	// All pages are in the file itself, without a write-ahead log beside it.
	if _, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		return fmt.Errorf("check %s: %w", file, err)
	}
	return nil
}
