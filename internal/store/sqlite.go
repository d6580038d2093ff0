package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	sqlitedriver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"deadman/alerts"
)

// DatabaseFile is the name of the SQLite file in the data folder.
const DatabaseFile = "deadman.db"

// sqlite implements engine on one file.
type sqlite struct {
	*sqliteFile
	sqliteDue
	sqliteSettlement
	sqliteEffects
	sqliteOutbox
	sqliteHistory
	sqliteRetention
}

func newSQLite(f *sqliteFile) *sqlite {
	e := &sqlite{
		sqliteFile:       f,
		sqliteDue:        sqliteDue{f},
		sqliteSettlement: sqliteSettlement{f},
		sqliteEffects:    sqliteEffects{sqliteFile: f},
		sqliteOutbox:     sqliteOutbox{f},
		sqliteHistory:    sqliteHistory{f},
	}
	e.sqliteRetention = sqliteRetention{&e.sqliteHistory}
	return e
}

// sqliteFile is an open file with the SQL that differs from that of Postgres. It has one writer, so no other
// transaction interleaves with a running one.
type sqliteFile struct {
	db     *sql.DB
	writes *prepared // on db
	read   *prepared
	lock   *os.File
	correction
}

// connector opens the connections of one store. They have the clock functions of Postgres: now() and clock_timestamp()
// return the time of the store's clock, in microseconds.
type connector struct {
	driver *sqlitedriver.Driver
	source string
}

// newDriver returns a driver with the clock functions.
func newDriver(clock func() time.Time) (*sqlitedriver.Driver, error) {
	now := func(*sqlitedriver.FunctionContext, []driver.Value) (driver.Value, error) {
		return clock().UnixMicro(), nil
	}
	d := &sqlitedriver.Driver{}
	return d, errors.Join(d.RegisterScalarFunction("now", 0, now), d.RegisterScalarFunction("clock_timestamp", 0, now))
}

// Connect implements driver.Connector.
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.source) }

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.driver }

func openSQLite(ctx context.Context, o Options) (*database, error) {
	clock := o.Clock
	if clock == nil {
		clock = time.Now
	}
	timed, err := newDriver(clock)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := keepFolder(dir, o.Log); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	e := newSQLite(&sqliteFile{lock: lock})
	file := filepath.Join(dir, DatabaseFile)
	err = checkLog(file, maxCheckpoint) // before the mode of the database changes, which counts as a change
	if err == nil {
		err = keepFile(file, o.Log)
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	if err := e.connect(ctx, timed, file); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return &database{engine: e, db: e.db, read: e.read, log: o.Log, alone: true}, nil
}

// connect opens the one writing connection and the reading ones.
func (e *sqliteFile) connect(ctx context.Context, timed *sqlitedriver.Driver, file string) error {
	e.db = sql.OpenDB(connector{timed, dataSource(file, "immediate", "cache_size(-32768)")})
	e.db.SetMaxOpenConns(1)
	e.writes = newPrepared(e.db)
	read := sql.OpenDB(connector{timed, dataSource(file, "deferred", "cache_size(-4096)", "query_only(1)")})
	readers := max(2, runtime.GOMAXPROCS(0))
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	e.read = newPrepared(read)
	if err := e.db.PingContext(ctx); err != nil {
		return unreadable(file, err)
	}
	return nil
}

// unreadable returns an error that proposes a fix for a file that SQLite cannot read.
func unreadable(file string, err error) error {
	var sqliteErr *sqlitedriver.Error
	if errors.As(err, &sqliteErr) && sqliteErr.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return fmt.Errorf("%s is not a SQLite database; move it away, or set DEADMAN_DATA_DIR to another folder", file)
	}
	return fmt.Errorf("open %s: %w", file, err)
}

// dataSource returns the URL of a file with the settings of its connections. A commit is on disk as it returns:
// synchronous(FULL) with a write-ahead log.
func dataSource(file, txlock string, pragmas ...string) string {
	q := url.Values{
		"_txlock":              {txlock},
		"_time_integer_format": {"unix_micro"},
		"_pragma": append([]string{
			"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "temp_store(memory)",
		}, pragmas...),
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(file), RawQuery: q.Encode()}
	return u.String()
}

// Pools implements connections.
func (e *sqliteFile) Pools() []PoolUse {
	return []PoolUse{poolUse("writer", e.db), poolUse("readers", e.read.DB)}
}

func poolUse(name string, db *sql.DB) PoolUse {
	s := db.Stats()
	return PoolUse{Name: name, InUse: s.InUse, Idle: s.Idle, Max: s.MaxOpenConnections, Waits: s.WaitCount, Waited: s.WaitDuration}
}

// write runs f in a transaction of the one writer.
func (e *sqliteFile) write(ctx context.Context, f func(w *writer, now time.Time) error) error {
	known, err := e.writes.all(ctx, hotWrites) // before the transaction takes the only connection
	if err != nil {
		return err
	}
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // a no-op after a commit
	var now time.Time
	if err := tx.QueryRowContext(ctx, e.beginSQL()).Scan(at(&now)); err != nil {
		return err
	}
	w := &writer{tx: tx, known: known, stmts: make(map[string]*sql.Stmt), raised: make(map[int16][]alerts.ID)}
	if err := f(w, e.correct(now)); err != nil {
		return err
	}
	if err := w.post(); err != nil {
		return err
	}
	return tx.Commit()
}

func (e *sqliteFile) idOf(bytes string) string { return bytes }

func (e *sqliteFile) idText(id string) string { return `lower(hex(` + id + `))` }

func (e *sqliteFile) holds(ids, id string) string { return `instr(` + ids + `, ` + id + `) > 0` }

func (e *sqliteFile) tables() string {
	return `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'`
}

func (e *sqliteFile) beginSQL() string { return `SELECT now()` }

// isRetryable is always false: the writer has the file to itself.
func (e *sqliteFile) isRetryable(error) bool { return false }

func (e *sqliteFile) close() error {
	var errs []error
	if e.read != nil {
		errs = append(errs, e.read.Close())
	}
	if e.writes != nil {
		errs = append(errs, e.writes.Close())
	}
	return errors.Join(append(errs, e.lock.Close())...)
}

func (e *sqliteFile) hourOf(instant string) string {
	return instant + ` / 3600000000 * 3600000000` // microseconds since 1970
}

func (e *sqliteFile) secondsOf(from, to string) string {
	return `(` + to + ` - ` + from + `) / 1000000`
}

// errLogInUse means that a reader uses the write-ahead log, so that it was not emptied.
var errLogInUse = errors.New("the rows are deleted, but the write-ahead log still has them; try again")

// compactSQLite writes a database anew and empties its write-ahead log.
func compactSQLite(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, text := range []string{
		`PRAGMA temp_store = file`, // the copy may be larger than the memory
		`VACUUM`,
		`PRAGMA temp_store = memory`,
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("the rows are deleted, but pages of the file still have them; make room on the disk and try again: %w", err)
		}
	}
	return retry(ctx, func(err error) bool { return errors.Is(err, errLogInUse) }, func() error {
		var busy, frames, done int
		if err := conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &done); err != nil || busy == 0 {
			return err
		}
		return errLogInUse
	})
}
