// Package store keeps all state that outlives a process, in SQLite or in Postgres.
//
// A statement outside the hot paths has one text for both databases. The hot statements, and the features that the
// databases do not share, are behind engine, in files named after their database.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// MaxShards is the largest number of shards of a database.
const MaxShards = 1024

// DefaultShards is the number of shards of a database if its creator sets none.
const DefaultShards = 16

// dbTimeout bounds one transaction: a node that stops in the middle of one blocks no other node for longer.
const dbTimeout = 8 * time.Second

var (
	// ErrUnavailable means that the database cannot be reached at the moment; try again.
	ErrUnavailable = errors.New("the database cannot be reached")
	// ErrDenied means that the database refuses this user or does not exist.
	ErrDenied = errors.New("the database refuses the connection")
	// ErrLocked means that another process works on the data folder.
	ErrLocked = errors.New("the data folder is in use")
	// ErrSchemaTooNew means that a later version of deadman migrated the database.
	ErrSchemaTooNew = errors.New("the database's schema is too new")
	// ErrNodeBehind means that a live node could not work with the schema once it is migrated.
	ErrNodeBehind = errors.New("a live node cannot follow the schema")
	// ErrForeignSchema means that the database holds tables that are not deadman's.
	ErrForeignSchema = errors.New("the database is not deadman's")
)

// Options select the database to open.
type Options struct {
	DatabaseURL string       // Postgres; empty: SQLite
	URLName     string       // name of DatabaseURL in errors; empty: DEADMAN_DATABASE_URL
	DataDir     string       // the folder of the SQLite file; created if it is missing
	Shards      int          // used at creation, 1 to MaxShards; 0: DefaultShards
	Log         *slog.Logger // nil: slog.Default()
	// Clock is the clock of a SQLite database, since SQLite has none of its own; nil: time.Now. Tests set it to move
	// the database's time. Postgres uses its server's clock and ignores Clock.
	Clock func() time.Time
	// Tracer is called for each statement on Postgres; nil: none.
	Tracer pgx.QueryTracer
}

// Store is one database: the stores of each kind of row. It is safe for concurrent use.
type Store struct {
	*database
	*migrator

	*JobStore
	*ProgressStore
	*LoadStore
	*StatisticsStore
	*GaugeStore
	*HistoryStore
	*HeartbeatStore
	*LeaseStore
	*OutageStore
	*ClockStore
	*TraceStore

	*CursorStore
	*TickStore
	*ScheduleStore
	*StoredTickStore
	*DeadLetterStore
	*LetterCapStore
	*EarlyStore

	*AlertStore
	*SystemAlertStore
	*OutboxStore
	*RestoreStore
	*NotificationStore
	*DeliveredAlertStore
	*AckLinkStore
	*MuteStore

	*RuleStore
	*RebindStore
	*VersionStore
	*QuotaStore
	*CalendarStore

	*PingAddressStore
	*PingLogStore
	*BadgeStore

	*TokenStore
	*SessionStore
	*AuditStore
	*RequestStore
	*ForgetStore
	*RetentionStore

	closed func() error // once
}

// newStore returns the stores of a database.
func newStore(d *database) *Store {
	changer, jobs := ruleChanger{d}, &JobStore{d}
	return &Store{
		database: d,
		migrator: &migrator{d},

		JobStore:        jobs,
		ProgressStore:   &ProgressStore{d},
		LoadStore:       &LoadStore{d},
		StatisticsStore: &StatisticsStore{d},
		GaugeStore:      &GaugeStore{d},
		HistoryStore:    &HistoryStore{d},
		HeartbeatStore:  &HeartbeatStore{d},
		LeaseStore:      &LeaseStore{d},
		OutageStore:     &OutageStore{d},
		ClockStore:      &ClockStore{database: d},
		TraceStore:      &TraceStore{d},

		CursorStore:     &CursorStore{d},
		TickStore:       &TickStore{d},
		ScheduleStore:   &ScheduleStore{d},
		StoredTickStore: &StoredTickStore{d},
		DeadLetterStore: &DeadLetterStore{d},
		LetterCapStore:  &LetterCapStore{d},
		EarlyStore:      &EarlyStore{d},

		AlertStore:          &AlertStore{d},
		SystemAlertStore:    &SystemAlertStore{d},
		OutboxStore:         &OutboxStore{d},
		RestoreStore:        &RestoreStore{d},
		NotificationStore:   &NotificationStore{d},
		DeliveredAlertStore: &DeliveredAlertStore{d},
		AckLinkStore:        &AckLinkStore{d},
		MuteStore:           &MuteStore{d},

		RuleStore:    &RuleStore{changer, jobs},
		RebindStore:  &RebindStore{changer},
		VersionStore: &VersionStore{d},
		QuotaStore:   &QuotaStore{d},

		CalendarStore: &CalendarStore{changer},

		PingAddressStore: &PingAddressStore{d},
		PingLogStore:     &PingLogStore{d},
		BadgeStore:       &BadgeStore{d},

		TokenStore:   &TokenStore{d},
		SessionStore: &SessionStore{d},
		AuditStore:   &AuditStore{d},
		RequestStore: &RequestStore{d},
		ForgetStore:  &ForgetStore{d},

		RetentionStore: &RetentionStore{d, alertRetention{d, &AlertStore{d}}},

		closed: sync.OnceValue(d.close),
	}
}

var (
	_ futurejobs.Queue       = (*Store)(nil)
	_ futurejobs.Leases      = (*Store)(nil)
	_ futurejobs.EffectStore = (*Store)(nil)
	_ futurejobs.Shifts      = (*Store)(nil)
	_ alerts.Outbox          = (*Store)(nil)
	_ rules.Store            = (*Store)(nil)
)

// engine has the operations with a text of its own for each database.
type engine interface {
	queueEngine
	historyEngine
	dialect
	clockCorrection
	limited
	connections

	// beginSQL returns the first statement of a transaction; its result is the time.
	beginSQL() string
	// isRetryable reports whether a transaction that failed with err should be retried.
	isRetryable(err error) bool
}

// connections are the open connections to the database.
type connections interface {
	// Pools returns the use of the pools of connections.
	Pools() []PoolUse
	close() error
}

// limited is implemented by prefetchPolicy.
type limited interface {
	boundBy(q futurejobs.Quotas)
	boundLetters(limits LetterLimits)
}

// queueEngine has the hot statements: those of each job.
type queueEngine interface {
	// Due implements futurejobs.Queue.
	Due(ctx context.Context, q futurejobs.DueQuery) ([]futurejobs.Job, error)
	// DueBuffers returns the number of database pages that Due touches; 0: the database does not report it.
	DueBuffers(ctx context.Context, q futurejobs.DueQuery) (int64, error)
	// Settle implements futurejobs.Queue.
	Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error)
	// Apply implements futurejobs.EffectStore.
	Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error)
	// MarkPublished implements alerts.Outbox.
	MarkPublished(ctx context.Context, sent []alerts.Alert) error
}

// historyEngine keeps the history, on Postgres in a table for each day.
type historyEngine interface {
	retentionEngine

	// latest returns a page of history of the rules (all, if nil), newest first.
	latest(ctx context.Context, rules []int32, f futurejobs.Filter) (futurejobs.Page[futurejobs.EndedJob], error)
	// since returns the condition that a job of the history f ended at from or later.
	since(ctx context.Context, from time.Time) (filter, error)
	// oldest returns a time before which no job ended, within a day of the first one; zero: none ended.
	oldest(ctx context.Context) (time.Time, error)
	// createPartitions creates the history tables of the days after now.
	createPartitions(ctx context.Context, now time.Time) error
	// unready returns the first day after today without a history table; zero: none.
	unready(ctx context.Context, now time.Time) (time.Time, error)
	// dropHistoryBefore deletes the history that ended before the given time, while more says so, and returns the number of rows.
	dropHistoryBefore(ctx context.Context, before time.Time, more func() bool) (int64, error)
}

// dialect has the expressions that differ between the databases.
type dialect interface {
	// idOf returns the expression for the id of an alert, given the expression for its bytes.
	idOf(bytes string) string
	// idText returns the expression for the digits of an id, in lower case.
	idText(id string) string
	// holds returns the condition that the id of an alert is in a packed list of ids.
	holds(ids, id string) string
	// hourOf returns the expression for the start of the hour of an instant, in UTC.
	hourOf(instant string) string
	// secondsOf returns the expression for the whole seconds between two instants.
	secondsOf(from, to string) string
	// tables returns the statement that lists the names of all tables.
	tables() string
}

// clockCorrection is implemented by correction.
type clockCorrection interface {
	goBy(correct func(reported time.Time) time.Time)
	correct(reported time.Time) time.Time
}

// Open opens the database, migrates its schema and creates its shards.
//
// It returns ErrUnavailable, ErrDenied, ErrLocked, ErrForeignLog, ErrSchemaTooNew, ErrNodeBehind or ErrForeignSchema, wrapped with the
// action to take.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, cmp.Or(o.Shards, DefaultShards), false); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Migrate brings the schema up to date as Open does, even past live nodes if leaveBehind is set. It returns the schema
// from before and after. Errors are those of Open.
func Migrate(ctx context.Context, o Options, leaveBehind bool) (before, after Schema, err error) {
	s, err := connect(ctx, o)
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if before, err = s.Schema(ctx); err != nil {
		return before, after, err
	}
	if err := s.prepare(ctx, cmp.Or(o.Shards, DefaultShards), leaveBehind); err != nil {
		return before, after, err
	}
	after, err = s.Schema(ctx)
	return before, after, err
}

// ReadSchema reads the schema of a database and changes nothing. Errors are those of Open except ErrNodeBehind, as the
// schema has that information.
func ReadSchema(ctx context.Context, o Options) (schema Schema, err error) {
	if o.DatabaseURL == "" {
		switch _, err := os.Stat(filepath.Join(o.DataDir, DatabaseFile)); {
		case errors.Is(err, fs.ErrNotExist): // opening it would create it
			return unmigrated(true, 0)
		case err != nil:
			return schema, fmt.Errorf("data folder: %w", err)
		}
	}
	s, err := connect(ctx, o)
	if err != nil {
		return schema, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if schema, err = s.Schema(ctx); err != nil {
		return schema, err
	}
	return schema, schema.tooNew()
}

// connect opens the database as it is, without a migration.
func connect(ctx context.Context, o Options) (*Store, error) {
	if o.Shards < 0 || o.Shards > MaxShards {
		return nil, fmt.Errorf("shards: %d is not within 1 and %d", o.Shards, MaxShards)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	open := openSQLite
	if o.DatabaseURL != "" {
		open = openPostgres
	}
	d, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	return newStore(d), nil
}

// prepare makes the database ready for use: schema, shards, clock steps and history tables.
func (s *Store) prepare(ctx context.Context, shards int, leaveBehind bool) error {
	if err := s.migrate(ctx, leaveBehind); err != nil {
		return err
	}
	if err := s.seed(ctx, shards); err != nil {
		return wrapErr("shards", err)
	}
	if _, err := s.KnowSteps(ctx); err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.createPartitions(ctx, now)
}

// Close releases the database. The caller must finish its work before. Close may be called again.
func (s *Store) Close() error { return s.closed() }

// Prune deletes rows beyond their retention, in bounded transactions, and creates the history tables of the next days.
// On Postgres, history is deleted by whole days, so it stays up to a day longer. An unpublished alert stays. Prune may
// run on several nodes at once.
func (s *Store) Prune(ctx context.Context, r Retention) (Pruned, error) { return r.prune(ctx, s) }
