package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	futurejobs "deadman/future_jobs"
)

// DueRange is the text of a due read in SQLite, to test its plan.
const DueRange = dueRange

// DueStatement is the statement of a due read in Postgres, to test its plan.
var DueStatement = dueStatement

// FenceText takes the locks of a settle.
var FenceText = rebindPlaceholders(fenceCTE + " SELECT count(*) FROM held_now")

// DueShards and EndPlanned return statements about planned ticks, to test their plans.
var (
	DueShards  = dueShards
	EndPlanned = endPlanned
)

// TickStatement returns the statement that lists ticks, to test its plan.
func (s *Store) TickStatement(ref futurejobs.ScheduleRef, f futurejobs.TickFilter) (text string, args []any, err error) {
	found, _, err := tickList{s.StoredTickStore, ref, f, 1000}.statement()
	return rebindPlaceholders(found.text + tickOrder + ` LIMIT 51`), found.args, err
}

// SearchTicks is ScheduleTicks with another number of searched ticks.
func (s *Store) SearchTicks(ctx context.Context, ref futurejobs.ScheduleRef, f futurejobs.TickFilter, most int) (futurejobs.Page[futurejobs.ScheduleTick], error) {
	return tickList{s.StoredTickStore, ref, f, most}.page(ctx)
}

// Begin has the options of a transaction.
var Begin = begin

// CountPruned adds deleted rows to a count.
const CountPruned = countPruned

// Away is asUnavailable.
var Away = asUnavailable

// Opening returns the first statement of a transaction on database/sql.
func (s *Store) Opening() string { return s.beginSQL() }

// Pool returns the store's pool.
func (s *Store) Pool() *pgxpool.Pool { return s.engine.(*postgres).pool }

// PruneOnce deletes rows from before a time in at most one transaction of each kind.
func (s *Store) PruneOnce(ctx context.Context, before time.Time) (p Pruned, err error) {
	once := func() func() bool {
		left := 1
		return func() bool { left--; return left >= 0 }
	}
	p.History, err = s.dropHistoryBefore(ctx, before, once())
	if err == nil {
		p.Alerts, err = s.RetentionStore.alerts.pruneAlerts(ctx, before, once())
	}
	return p, err
}

// PruneDayOnce deletes the jobs of the history that ended on a day, in at most one transaction.
func (s *Store) PruneDayOnce(ctx context.Context, day time.Time) (n int64, err error) {
	left := 1
	n, _, err = s.dropHistoryOf(ctx, day, s.allShards(), filter{text: `1 = 1`}, func() bool { left--; return left >= 0 })
	return n, err
}

// PruneTicksOnce deletes applied ticks from before a time, in at most one transaction.
func (s *Store) PruneTicksOnce(ctx context.Context, before time.Time) (int64, error) {
	left := 1
	return s.forgetTicks(ctx, retentionPlan{Retention{History: futurejobs.Day}, nil}, before.Add(futurejobs.Day), func() bool { left--; return left >= 0 })
}

// PruneNoticesOnce deletes notifications from before a time, in at most steps transactions.
func (s *Store) PruneNoticesOnce(ctx context.Context, before time.Time, steps int) error {
	return s.forgetNotices(ctx, before, func() bool { steps--; return steps >= 0 })
}

// DueAlerts is the statement for the alerts that retention deletes, to test its plan.
func (s *Store) DueAlerts(rules []int32) string { return s.RetentionStore.alerts.dueAlerts("", rules) }

// DueHistory is the statement that deletes history of a day in Postgres, to test its plan.
func (s *Store) DueHistory(ctx context.Context, day time.Time, key string) (text string, args []any) {
	r := s.engine.(*postgres).postgresRetention
	ended, _ := r.endedOn(ctx, day)
	return r.dueHistory(ended, filter{text: `1 = 1`}, 0, key)
}

// PruneBatch is the largest number of rows that one transaction of retention deletes.
const PruneBatch = pruneBatch

// HistoryEnds is the text of the ends of the history in SQLite, to test its plan.
const HistoryEnds = historyEnds

// MakeDays creates the tables of the days after now.
func (s *Store) MakeDays(ctx context.Context, now time.Time) error {
	return s.createPartitions(ctx, now)
}

// DB returns the store's database.
func (s *Store) DB() *sql.DB { return s.db }
