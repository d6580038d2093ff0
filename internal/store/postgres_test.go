package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// fixture is a store on Postgres with one rule, and a node that holds its shards.
type fixture struct {
	*store.Store
	t    *testing.T
	dsn  string
	rule *futurejobs.Rule
	set  int64
	held []futurejobs.HeldShard
}

func onPostgres(t *testing.T, lease time.Duration) *fixture {
	dsn := storetest.Postgres(t)
	f := &fixture{Store: open(t, store.Options{DatabaseURL: dsn, Shards: 4}), t: t, dsn: dsn}
	saved, err := f.Save(t.Context(), rules.RuleVersion{Name: "r", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
	f.check(err)
	f.set, err = f.Revision(t.Context())
	f.check(err)
	f.rule = &futurejobs.Rule{ID: saved.RuleID, Version: 1, Name: "r", Entity: "e", Grid: futurejobs.Grid(time.Second)}
	leases, err := f.Leases(t.Context())
	f.check(err)
	for _, l := range leases {
		got, ok, err := f.Take(t.Context(), "me", l.HeldShard, lease)
		if err != nil || !ok {
			t.Fatalf("take: %v, %v", ok, err)
		}
		f.held = append(f.held, got.HeldShard)
	}
	return f
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) ref(key string) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf("e", key, f.Shards()), RuleID: f.rule.ID, Key: key}
}

// start starts n jobs and returns them.
func (f *fixture) start(n int) []futurejobs.Job {
	f.t.Helper()
	b := futurejobs.EffectBatch{RuleSet: f.set}
	first := time.Now().Add(time.Hour).Truncate(time.Second)
	for i := range n {
		key := fmt.Sprintf("k%05d", i)
		b.Effects = append(b.Effects, futurejobs.Effect{Rule: f.rule, Ref: f.ref(key), Action: futurejobs.Start{
			Job: futurejobs.Job{Version: 1, Since: first, FirstCheckAt: first},
		}})
	}
	_, err := f.Apply(f.t.Context(), b)
	f.check(err)
	walks := make([]futurejobs.ShardCursor, f.Shards())
	for i := range walks {
		walks[i] = futurejobs.ShardCursor{Shard: int16(i), ID: math.MinInt64}
	}
	jobs, err := f.Due(f.t.Context(), futurejobs.DueQuery{Cursors: walks, Until: first, Limit: n})
	f.check(err)
	return jobs
}

func (f *fixture) settlement(jobs ...futurejobs.Job) futurejobs.Settlement {
	s := futurejobs.Settlement{Held: f.held, RuleSet: f.set}
	for _, j := range jobs {
		s.Decisions = append(s.Decisions, &futurejobs.Decision{Job: j, Outcome: "exhausted"})
	}
	return s
}

// conn returns a connection outside the store's pool.
func (f *fixture) conn() *pgx.Conn {
	f.t.Helper()
	c, err := pgx.Connect(f.t.Context(), f.dsn)
	f.check(err)
	f.t.Cleanup(func() { _ = c.Close(context.Background()) }) // the test is over
	return c
}

// waitUntil waits for a condition on the database.
func (f *fixture) waitUntil(what, query string) {
	f.t.Helper()
	c := f.conn()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		var ok bool
		f.check(c.QueryRow(f.t.Context(), query).Scan(&ok))
		if ok {
			return
		}
		wait(5 * time.Millisecond)
	}
	f.t.Fatalf("it never came to this: %s", what)
}

func wait(d time.Duration) { <-time.After(d) }

// blockedOn returns the condition that n statements that contain text wait for a lock.
func blockedOn(n int, text string) string {
	return fmt.Sprintf(`SELECT count(*) = %d FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%%%s%%'`, n, text)
}

// lockJob locks a job's row until letGo is called.
func (f *fixture) lockJob(j futurejobs.Job) (letGo func()) {
	f.t.Helper()
	tx, err := f.conn().Begin(f.t.Context())
	f.check(err)
	_, err = tx.Exec(f.t.Context(), `SELECT 1 FROM future_job WHERE shard = $1 AND id = $2 FOR UPDATE`, j.Shard, j.ID)
	f.check(err)
	return func() { f.check(tx.Rollback(f.t.Context())) }
}

// TestTakeoverWaitsForSettle checks that a settle in progress at the expiry of its lease is seen by the new holder
// completely or not at all: the takeover waits for it. Renewals of other leases do not.
func TestTakeoverWaitsForSettle(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour) // until the renewal
	job := f.start(8)[0]
	letGo := f.lockJob(job)
	var after sync.WaitGroup
	after.Go(func() {
		settled, err := f.Settle(t.Context(), f.settlement(job))
		if err != nil || !settled.Jobs[job.ID] {
			t.Errorf("settle: %+v, %v", settled, err)
		}
	})
	f.waitUntil("the settle waits for the job", blockedOn(1, "DELETE FROM future_job"))

	still, err := f.Renew(t.Context(), "me", []futurejobs.Lease{{HeldShard: f.held[job.Shard]}}, time.Second)
	if err != nil || len(still) != 1 {
		t.Fatalf("a renewal beside a settle: %v, %v", still, err)
	}
	f.waitUntil("the lease is over", fmt.Sprintf(`SELECT expires_at <= now() FROM shard_lease WHERE shard = %d`, job.Shard))
	after.Go(func() {
		got, ok, err := f.Take(t.Context(), "other", f.held[job.Shard], time.Hour)
		if err != nil || !ok {
			t.Errorf("take: %v, %v", ok, err)
		}
		if jobs, err := f.Jobs(t.Context(), futurejobs.Filter{Key: job.Key}); err != nil || len(jobs.Items) != 0 {
			t.Errorf("the new holder of %+v sees what was settled: %v, %v", got, jobs.Items, err)
		}
	})
	f.waitUntil("the takeover waits for the settle", blockedOn(1, "UPDATE shard_lease SET epoch"))
	letGo()
	after.Wait()
}

// countLostSettles keeps the fence locked by overlapping transactions until the test is over. It returns their number so far.
func (f *fixture) countLostSettles() (ended func() int64) {
	var shards []int16
	var epochs []int64
	for _, h := range f.held {
		shards, epochs = append(shards, h.Shard), append(epochs, h.Epoch)
	}
	conns := make([]*pgx.Conn, 8)
	for i := range conns {
		conns[i] = f.conn()
	}
	ctx, stop := context.WithCancel(f.t.Context())
	var settlers sync.WaitGroup
	var settles atomic.Int64
	f.t.Cleanup(func() { stop(); settlers.Wait() }) // before the connections are closed
	set := f.set
	for _, c := range conns {
		settlers.Go(func() {
			for ctx.Err() == nil {
				b := &pgx.Batch{}
				b.Queue(store.FenceText, set, []int32{f.rule.ID}, set, shards, epochs, 1)
				b.Queue(`SELECT pg_sleep(0.1)`)
				if err := c.SendBatch(ctx, b).Close(); err != nil && ctx.Err() == nil {
					f.t.Error(err)
				}
				settles.Add(1)
			}
		})
	}
	f.waitUntil("the fence is held", `SELECT count(*) >= 3 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`)
	return settles.Load
}

// mostSettles is the number of overlapping settles that a change may wait for. They take five seconds on an idle machine,
// and a change that waits for all of them fails after eight, by its own limit.
const mostSettles = 8 * 50

// checkSettlesDuring fails the test if a change fails, or waits for more than mostSettles: a slow machine settles slowly, too.
func checkSettlesDuring(t *testing.T, what string, settles func() int64, change func() error) {
	t.Helper()
	before := settles()
	if err := change(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if waited := settles() - before; waited > mostSettles {
		t.Errorf("%s waited for %d settles", what, waited)
	}
}

// TestSettlesThatOverlapDoNotHoldOffTakeover checks that an expired lease admits no new settle, even before a
// takeover.
func TestSettlesThatOverlapDoNotHoldOffTakeover(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, 1500*time.Millisecond)
	settles := f.countLostSettles()
	f.waitUntil("the leases are over", `SELECT bool_and(expires_at <= now()) FROM shard_lease`)
	checkSettlesDuring(t, "the takeover", settles, func() error {
		_, ok, err := f.Take(t.Context(), "other", f.held[0], time.Hour)
		if err == nil && !ok {
			err = errors.New("not taken")
		}
		return err
	})
}

func TestSettlesThatOverlapDoNotHoldOffChangeOfRules(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	settles := f.countLostSettles()
	checkSettlesDuring(t, "the save", settles, func() error {
		_, err := f.Save(t.Context(), rules.RuleVersion{Name: "r", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
		return err
	})
	checkSettlesDuring(t, "the deletion", settles, func() error {
		_, err := f.Delete(t.Context(), "r", rules.AnyVersion)
		return err
	})
}

// TestSettleWaitsAtGate checks that a settle waits for the result of a change of its rule that is in progress.
func TestSettleWaitsAtGate(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	jobs := f.start(2)
	_, err := f.Pool().Exec(t.Context(), `UPDATE rule SET gate_until = now() + interval '50 ms'`)
	f.check(err)
	settled, err := f.Settle(t.Context(), f.settlement(jobs[0]))
	if err != nil || len(settled.Jobs) != 1 {
		t.Errorf("a gate that opens: %+v, %v", settled, err)
	}
	_, err = f.Pool().Exec(t.Context(), `UPDATE rule SET gate_until = now() + interval '1 hour'`)
	f.check(err)
	if _, err := f.Settle(t.Context(), f.settlement(jobs[1])); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("a gate that stays shut: %v, want ErrRulesChanged", err)
	}
}

// TestRefusedCalendarOpensGates checks that a refused change of a calendar leaves the gates of its rules open, so that their
// settles and events do not wait for it.
func TestRefusedCalendarOpensGates(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	var rule string
	f.check(f.Pool().QueryRow(t.Context(), `SELECT name FROM rule WHERE deleted_at IS NULL`).Scan(&rule))
	revision, err := f.Revision(t.Context())
	f.check(err)
	change := rules.CalendarChange{Version: 7, Revision: revision, Rules: []string{rule}}
	if _, err := f.SaveCalendar(t.Context(), rules.CalendarVersion{Name: "office", Document: "zone: UTC\n"}, change); !errors.Is(err, rules.ErrConflict) && !errors.Is(err, futurejobs.ErrNotFound) {
		t.Fatalf("a calendar that is not at version 7: %v", err)
	}
	var closed int
	f.check(f.Pool().QueryRow(t.Context(), `SELECT count(*) FROM rule WHERE gate_until > now()`).Scan(&closed))
	if closed != 0 {
		t.Errorf("%d gates stay closed", closed)
	}
}

// TestOlderNodesChangesAreFenced checks that every change counts while a node of schema 16 runs, since such a node
// changes rules without a fence.
func TestOlderNodesChangesAreFenced(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	jobs := f.start(2)
	beat := func(d time.Duration) {
		_, err := f.Heartbeat(t.Context(), futurejobs.Node{ID: "older", StartedAt: time.Now(), Schema: 16}, d)
		f.check(err)
	}
	beat(time.Second)
	older, err := f.conn().Begin(t.Context())
	f.check(err)
	_, err = older.Exec(t.Context(), `UPDATE rule_set SET revision = revision + 1, gate_until = NULL WHERE id = 1`)
	f.check(err)
	_, err = older.Exec(t.Context(), `UPDATE rule SET deleted_at = now() WHERE id = $1`, f.rule.ID)
	f.check(err)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if settled, err := f.Settle(t.Context(), f.settlement(jobs[0])); !errors.Is(err, futurejobs.ErrRulesChanged) {
			t.Errorf("settle: %+v, %v, want ErrRulesChanged", settled, err)
		}
	})
	f.waitUntil("the settle waits for the change", blockedOn(1, "FROM rule_set"))
	f.check(older.Commit(t.Context()))
	waiting.Wait()
	if _, err := f.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: f.set}); !errors.Is(err, futurejobs.ErrRulesChanged) {
		t.Errorf("apply: %v, want ErrRulesChanged", err)
	}
	changes, err := f.Changes(t.Context(), f.set)
	f.check(err)
	if !changes.All || len(changes.Saved) != 0 {
		t.Errorf("changes: %+v, want all, and no rule", changes)
	}
	_, err = f.Save(t.Context(), rules.RuleVersion{Name: "s", Entity: "e", Document: []byte(`{}`)}, rules.AnyVersion)
	f.check(err) // it does not wait for the older node: that would exceed its time
	changes, err = f.Changes(t.Context(), f.set)
	f.check(err)
	if !changes.All || len(changes.Saved) != 1 {
		t.Errorf("changes: %+v, want all", changes)
	}
}

// TestNoTransactionIsLeftOpen checks that a transaction of a stopped node ends by itself.
func TestNoTransactionIsLeftOpen(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	job := f.start(1)[0]
	letGo := f.lockJob(job)
	defer letGo()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := f.Settle(ctx, f.settlement(job))
	if pg := new(pgconn.PgError); !errors.Is(err, futurejobs.ErrTooSlow) || !errors.As(err, &pg) || pg.Code != "55P03" {
		t.Errorf("a settle that waits for a lock ended with %v, want ErrTooSlow before its statement runs out of time", err)
	}
}

// TestTransactionsAreBounded checks that the database ends a transaction at any point where its node stops.
func TestTransactionsAreBounded(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	const settings = `SELECT current_setting('statement_timeout') || ' ' || current_setting('idle_in_transaction_session_timeout')`
	bounded := func(row interface{ Scan(...any) error }) {
		t.Helper()
		var got string
		f.check(row.Scan(&got))
		if got != "8s 8s" {
			t.Errorf("bounds: %s", got)
		}
	}
	hot, err := f.Pool().BeginTx(t.Context(), store.Begin)
	f.check(err)
	bounded(hot.QueryRow(t.Context(), settings))
	f.check(hot.Rollback(t.Context()))

	cold, err := f.DB().BeginTx(t.Context(), nil)
	f.check(err)
	rows, err := cold.QueryContext(t.Context(), f.Opening())
	f.check(err)
	f.check(rows.Close())
	f.check(rows.Err())
	bounded(cold.QueryRowContext(t.Context(), settings))
	f.check(cold.Rollback())
}

func TestDeadlocksAreTriedAgain(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	jobs := f.start(2)
	c := f.conn()
	tx, err := c.Begin(t.Context())
	f.check(err)
	lock := func(j futurejobs.Job) {
		_, err := tx.Exec(t.Context(), `SELECT 1 FROM future_job WHERE shard = $1 AND id = $2 FOR UPDATE`, j.Shard, j.ID)
		f.check(err)
	}
	_, err = tx.Exec(t.Context(), `SET LOCAL deadlock_timeout = '1min'`) // makes the settle the victim of the deadlock
	f.check(err)
	lock(jobs[1])
	var after sync.WaitGroup
	after.Go(func() {
		settled, err := f.Settle(t.Context(), f.settlement(jobs...))
		if err != nil || len(settled.Jobs) != 2 {
			t.Errorf("settle: %+v, %v", settled, err)
		}
	})
	f.waitUntil("the settle waits for the second job", blockedOn(1, "DELETE FROM future_job"))
	lock(jobs[0]) // granted once the settle has lost
	f.check(tx.Rollback(t.Context()))
	after.Wait()
}

// plan returns Postgres's plan of a statement.
func (f *fixture) plan(text string, args ...any) string {
	f.t.Helper()
	rows, err := f.conn().Query(f.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) "+text, args...)
	f.check(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.check(err)
	return strings.Join(lines, "\n")
}

func TestDueIsRangeOfItsIndex(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	jobs := f.start(5000)
	mid := jobs[len(jobs)/2]
	some := futurejobs.DueQuery{Until: mid.NextCheckAt, Limit: 50}
	for shard, id := range []int64{0, mid.ID, 0, math.MaxInt64} {
		some.Cursors = append(some.Cursors, futurejobs.ShardCursor{Shard: int16(shard), At: mid.NextCheckAt, ID: id}) //nolint:gosec // there are four
	}
	without := some
	without.Not = []futurejobs.Unready{{VersionRef: futurejobs.VersionRef{RuleID: 7, Version: 1}}}
	for i, query := range []futurejobs.DueQuery{some, without, some, without} {
		if i == 2 {
			_, err := f.Pool().Exec(t.Context(), `VACUUM ANALYZE future_job`)
			f.check(err)
		}
		text, args := store.DueStatement(query, false)
		plan := f.plan(text, args...)
		if !strings.Contains(plan, "Index Scan using future_job_due") ||
			!strings.Contains(plan, "Index Cond: ((shard = walk.shard) AND (ROW(next_check_at, id) > ROW(walk.next_check_at, walk.id)) AND (next_check_at <= ") ||
			strings.Contains(plan, "Sort") || strings.Contains(plan, "Seq Scan") {
			t.Errorf("analyzed %v, some left out %v:\n%s", i >= 2, len(query.Not) > 0, plan)
		}
	}
}

func TestLargeBodiesLieBesideRow(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	jobs := f.start(100)
	ctx := t.Context()
	_, err := f.Pool().Exec(ctx, `UPDATE future_job SET event = repeat('x', 5000)`)
	f.check(err)
	before := f.bodies()
	if len(before) != len(jobs) {
		t.Fatalf("%d bodies lie beside their rows, want %d", len(before), len(jobs))
	}
	s := futurejobs.Settlement{Held: f.held, RuleSet: f.set}
	for _, j := range jobs {
		j.NextCheckAt = j.NextCheckAt.Add(time.Minute)
		s.Decisions = append(s.Decisions, &futurejobs.Decision{Job: j})
	}
	settled, err := f.Settle(ctx, s)
	if err != nil || len(settled.Jobs) != len(jobs) {
		t.Fatalf("settle: %d, %v", len(settled.Jobs), err)
	}
	if after := f.bodies(); !slices.Equal(before, after) {
		t.Errorf("a reschedule wrote the bodies again: they were %v, and are %v", before, after)
	}
}

// bodies returns the identifiers of the out-of-line values of future_job. A rewritten value gets a new one, and the old
// one stays until a vacuum.
func (f *fixture) bodies() []int64 {
	f.t.Helper()
	var beside string
	f.check(f.Pool().QueryRow(f.t.Context(), `SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'future_job'::regclass`).Scan(&beside))
	rows, err := f.Pool().Query(f.t.Context(), `SELECT DISTINCT chunk_id::bigint FROM `+beside+` ORDER BY 1`)
	f.check(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	f.check(err)
	return ids
}

// TestNodesMakeDaysTogether has several nodes create the same tables of days at once, as nodes do that start together.
func TestNodesMakeDaysTogether(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	ctx := t.Context()
	now := time.Now().UTC()
	const nodes, months = 6, 12
	for i := range months {
		soon := now.AddDate(0, i+1, 0)
		var all errgroup.Group
		for range nodes {
			all.Go(func() error { return f.MakeDays(ctx, soon) })
		}
		if err := all.Wait(); err != nil {
			t.Fatalf("month %d: %v", i, err)
		}
		for day := range 8 {
			var exists bool
			name := "history_" + soon.AddDate(0, 0, day).Format("20060102")
			f.check(f.Pool().QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&exists))
			if !exists {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

func TestHistoryLivesInDays(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	ctx := t.Context()
	count := func(table string) (n int) {
		t.Helper()
		f.check(f.Pool().QueryRow(ctx, `SELECT count(*) FROM `+table).Scan(&n))
		return n
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for i := range 8 { // today and a week ahead
		count("history_" + today.AddDate(0, 0, i).Format("20060102"))
	}
	jobs := f.start(10)
	_, err := f.Settle(ctx, f.settlement(jobs...))
	f.check(err)
	if n := count("history_" + today.Format("20060102")); n != 10 && time.Now().UTC().Truncate(24*time.Hour).Equal(today) {
		t.Errorf("%d rows in today's table, want 10", n)
	}

	// A month and more of days as they would have been, and one day without a table.
	old := today.AddDate(0, 0, -40)
	_, err = f.Pool().Exec(ctx, fmt.Sprintf(`CREATE TABLE history_%s PARTITION OF history FOR VALUES FROM ('%s') TO ('%s')`,
		old.Format("20060102"), old.Format(time.RFC3339), old.AddDate(0, 0, 1).Format(time.RFC3339)))
	f.check(err)
	_, err = f.Pool().Exec(ctx, `UPDATE history SET ended_at = CASE WHEN id % 2 = 0 THEN $1::timestamptz ELSE $1::timestamptz - interval '10 days' END WHERE id < 7`, old.Add(time.Hour))
	f.check(err)
	page, err := f.History(ctx, futurejobs.Filter{Limit: 500})
	if err != nil || len(page.Items) != 10 {
		t.Errorf("listed %d of 10: %v", len(page.Items), err)
	}
	moved := count("history_"+old.Format("20060102")) + count("history_default")
	pruned, err := f.Prune(ctx, store.Retention{History: 30 * 24 * time.Hour})
	f.check(err)
	if int(pruned.History) != moved || count("history") != 10-moved || moved == 0 {
		t.Errorf("pruned %d of %d, %d left", pruned.History, moved, count("history"))
	}
	var exists bool
	f.check(f.Pool().QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, "history_"+old.Format("20060102")).Scan(&exists))
	if exists {
		t.Error("the old day is still there")
	}
	b, err := f.Balance(ctx)
	if err != nil || b.Created != b.Pending+b.Archived+b.Pruned {
		t.Errorf("balance: %+v, %v", b, err)
	}
	// A day with rows in the default partition stays there, and is not an error.
	_, err = f.Pool().Exec(ctx, `DROP TABLE history_`+today.Format("20060102"))
	f.check(err)
	_, err = f.Settle(ctx, f.settlement(f.start(1)...))
	f.check(err)
	_, err = f.Prune(ctx, store.Retention{})
	f.check(err)
}

// TestUpkeepBehindBackupDelaysNoSettlement checks upkeep during a backup (pg_dump), which holds ACCESS SHARE on
// history for its whole duration. The tables of the next days are created after it, and until then no settlement waits
// behind the attempt, as it would behind a request for the exclusive lock of history.
func TestUpkeepBehindBackupDelaysNoSettlement(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	ctx := t.Context()
	next := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 7)
	_, err := f.Pool().Exec(ctx, `DROP TABLE history_`+next.Format("20060102"))
	f.check(err)
	backup := f.readHistory()

	done := make(chan error)
	go func() {
		_, err := f.Prune(ctx, store.Retention{})
		done <- err
	}()
	for waits := true; waits; {
		select {
		case err := <-done:
			f.check(err)
			waits = false
		default:
			var modes []string
			f.check(f.Pool().QueryRow(ctx, `SELECT coalesce(array_agg(mode), '{}') FROM pg_locks JOIN pg_database d ON d.oid = database
				WHERE NOT granted AND relation = 'history'::regclass AND datname = current_database()`).Scan(&modes))
			if len(modes) > 0 {
				t.Fatalf("the upkeep waits for %v of history, and each settlement behind it", modes)
			}
		}
	}
	if day, _, err := f.HistoryUnready(ctx); err != nil || !day.Equal(next) {
		t.Errorf("the first day without a table is %v, %v, want %v", day, err, next)
	}
	if _, err := f.Settle(ctx, f.settlement(f.start(3)...)); err != nil {
		t.Error(err)
	}
	again := open(t, store.Options{DatabaseURL: f.dsn}) // a node that starts meanwhile does not fail
	f.check(backup.Rollback(ctx))
	_, err = again.Prune(ctx, store.Retention{})
	f.check(err)
	if day, _, err := f.HistoryUnready(ctx); err != nil || !day.IsZero() {
		t.Errorf("%v has no table after the backup: %v", day, err)
	}
	var kind string // the same as for a table that was created as a partition
	f.check(f.Pool().QueryRow(ctx, `SELECT string_agg(DISTINCT n::text, ' ') FROM (SELECT count(*) FROM pg_index WHERE indrelid::regclass::text LIKE 'history\_2%' GROUP BY indrelid) AS x(n)`).Scan(&kind))
	if kind != "1" {
		t.Errorf("days have %s indexes, want 1 each", kind)
	}
}

// readHistory reads the history as a backup does, until the transaction or the test ends.
func (f *fixture) readHistory() pgx.Tx {
	f.t.Helper()
	backup, err := f.Pool().Begin(f.t.Context())
	f.check(err)
	f.t.Cleanup(func() { _ = backup.Rollback(context.Background()) })
	_, err = backup.Exec(f.t.Context(), `LOCK TABLE history IN ACCESS SHARE MODE`)
	f.check(err)
	return backup
}

// makeOldDay makes the table of a day of 40 days ago.
func (f *fixture) makeOldDay() time.Time {
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -40)
	_, err := f.Pool().Exec(f.t.Context(), fmt.Sprintf(`CREATE TABLE history_%s PARTITION OF history FOR VALUES FROM ('%s') TO ('%s')`,
		day.Format("20060102"), day.Format(time.RFC3339), day.AddDate(0, 0, 1).Format(time.RFC3339)))
	f.check(err)
	return day
}

// TestDayIsNotDroppedBehindBackup checks that a drop of a day, with the exclusive lock of history that settlements
// wait behind, is tried briefly and rarely during a backup.
func TestDayIsNotDroppedBehindBackup(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	ctx := t.Context()
	old := f.makeOldDay()
	backup := f.readHistory()
	exists := func() (is bool) {
		t.Helper()
		f.check(f.Pool().QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, "history_"+old.Format("20060102")).Scan(&is))
		return is
	}
	keep := store.Retention{History: 30 * 24 * time.Hour}
	_, err := f.Prune(ctx, keep)
	f.check(err)
	if !exists() {
		t.Fatal("a day that is read was dropped")
	}
	f.check(backup.Rollback(ctx))
	_, err = f.Prune(ctx, keep)
	f.check(err)
	if !exists() {
		t.Error("the day was tried again at once")
	}
	again := open(t, store.Options{DatabaseURL: f.dsn})
	_, err = again.Prune(ctx, keep)
	f.check(err)
	if exists() {
		t.Error("the day is not dropped after the backup")
	}
}

// TestDroppedDayCountsItsRowsOnce checks that a drop of a day does not count the rows that another transaction deletes meanwhile.
func TestDroppedDayCountsItsRowsOnce(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	ctx := t.Context()
	day := f.makeOldDay()
	_, err := f.Pool().Exec(ctx, `INSERT INTO history (shard, id, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, outcome, check_count, step, checks, check_total, ended_at)
SELECT 0, n, $1, 1, 'k' || n, $2, $2, $2, $2, 1, 1, 0, 1, 0, $2 FROM generate_series(1, 10) AS n`, f.rule.ID, day)
	f.check(err)
	forget, err := f.Pool().Begin(ctx)
	f.check(err)
	defer func() { _ = forget.Rollback(ctx) }()
	_, err = forget.Exec(ctx, `DELETE FROM history WHERE ended_at = $1`, day)
	f.check(err)
	_, err = forget.Exec(ctx, store.CountPruned, 10, "history")
	f.check(err)
	dropped := make(chan int64, 1)
	go func() {
		p, err := f.Prune(ctx, store.Retention{History: 30 * 24 * time.Hour})
		if err != nil {
			t.Error(err)
		}
		dropped <- p.History
	}()
	for waits := false; !waits && len(dropped) == 0; {
		f.check(f.Pool().QueryRow(ctx, `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits))
	}
	f.check(forget.Commit(ctx))
	if n := <-dropped; n != 0 {
		t.Errorf("%d rows are counted, and another transaction deleted them", n)
	}
}

func TestNodesOpenOneDatabaseTogether(t *testing.T) {
	t.Parallel()
	dsn := storetest.EmptyPostgres(t)
	stores := make([]*store.Store, 4)
	var nodes sync.WaitGroup
	for i := range stores {
		nodes.Go(func() {
			var err error
			if stores[i], err = store.Open(t.Context(), store.Options{DatabaseURL: dsn, Shards: 3 + i}); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	for _, s := range stores {
		if s == nil {
			continue
		}
		if s.Shards() != stores[0].Shards() {
			t.Errorf("%d shards and %d", s.Shards(), stores[0].Shards())
		}
		leases, err := s.Leases(t.Context())
		if err != nil || len(leases) != s.Shards() {
			t.Errorf("%d leases: %v", len(leases), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
