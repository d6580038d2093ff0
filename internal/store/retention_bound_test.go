package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// pastDay is the day of the rows of seedPast.
var pastDay = time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)

// seedPast writes ended jobs and alerts of one day and of shard 0, half of them of rule 11 and of rule 12.
func seedPast(t *testing.T, s *store.Store, rows int) {
	t.Helper()
	const (
		series = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `
		jobs   = `INSERT INTO history (%sid, ended_at, created_at, since_at, first_check_at, next_check_at, check_total, check_slowest, rule_id, version, check_count, step, checks,
	shard, key, outcome) ` + series + `SELECT %si, %s, 0, 0, 11 + i %% 2, 1, 1, 1, 1, 0, 'k' || i, 'resolved' FROM n`
		raised = `INSERT INTO alert (id, decided_at, since_at, rule_id, version, check_count, shard, status, severity, key, detail) ` +
			series + `SELECT %s, %s, 11 + i %% 2, 1, 1, 0, 2, 2, 'k' || i, '{}' FROM n`
	)
	at, seq, seqOf, id := fmt.Sprint(pastDay.UnixMicro()), "seq, ", "i, ", `unhex(printf('%012x%020x', `+fmt.Sprint(pastDay.UnixMilli())+`, i))`
	if !s.SingleProcess() {
		at, seq, seqOf = "TIMESTAMPTZ '2025-03-01 00:00:00+00'", "", ""
		id = fmt.Sprintf(`(lpad(to_hex(%d), 12, '0') || lpad(to_hex(i), 20, '0'))::uuid`, pastDay.UnixMilli())
	}
	exec(t, s, fmt.Sprintf(jobs, seq, rows, seqOf, strings.TrimSuffix(strings.Repeat(at+", ", 5), ", ")))
	exec(t, s, fmt.Sprintf(raised, rows, id, at+", "+at))
}

// TestStepsOfRetentionAreBounded checks that a transaction of retention deletes at most its batch: the sweep waits for no more.
func TestStepsOfRetentionAreBounded(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 4)
		defer closeStore(t, s)
		seedPast(t, s, 3*store.PruneBatch)
		for _, step := range []struct {
			name string
			do   func() (store.Pruned, error)
			want store.Pruned
		}{
			{"a day", func() (p store.Pruned, err error) {
				p.History, err = s.PruneDayOnce(t.Context(), pastDay)
				return p, err
			}, store.Pruned{History: store.PruneBatch}},
			{"before", func() (store.Pruned, error) { return s.PruneOnce(t.Context(), pastDay.Add(2*futurejobs.Day)) }, store.Pruned{History: store.PruneBatch, Alerts: store.PruneBatch}},
		} {
			if got, err := step.do(); err != nil || got != step.want {
				t.Errorf("%s: one step deletes %+v, want %+v: %v", step.name, got, step.want, err)
			}
		}
		got, err := s.Prune(t.Context(), store.Retention{History: futurejobs.Day, Alerts: futurejobs.Day})
		if want := (store.Pruned{History: store.PruneBatch, Alerts: 2 * store.PruneBatch}); err != nil || got != want {
			t.Errorf("a round deletes %+v, want the rest, %+v: %v", got, want, err)
		}
	})
}

// TestStepsOfTickRetentionAreBounded checks that a transaction deletes at most its batch of applied ticks, also of one rule.
func TestStepsOfTickRetentionAreBounded(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 4)
		defer closeStore(t, s)
		saved, err := s.Save(t.Context(), rules.RuleVersion{Name: "each-second", Entity: "tick", Document: []byte(`{}`)}, rules.AnyVersion)
		if err != nil {
			t.Fatal(err)
		}
		at := fmt.Sprintf("%d + i", pastDay.UnixMicro())
		if !s.SingleProcess() {
			at = "TIMESTAMPTZ '2025-03-01 00:00:00+00' + i * interval '1 second'"
		}
		exec(t, s, fmt.Sprintf(`INSERT INTO tick_history (rule_id, tick_at, applied_at, outcome, missed, attempts)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT %d, %s, %s, 'started', 0, 1 FROM n`, 3*store.PruneBatch, saved.RuleID, at, at))
		if n, err := s.PruneTicksOnce(t.Context(), pastDay.Add(futurejobs.Day)); n != store.PruneBatch || err != nil {
			t.Errorf("one step deletes %d ticks, want %d: %v", n, store.PruneBatch, err)
		}
		if got, err := s.Prune(t.Context(), store.Retention{History: futurejobs.Day}); got.Ticks != 2*store.PruneBatch || err != nil {
			t.Errorf("a round deletes %d ticks, want the rest, %d: %v", got.Ticks, 2*store.PruneBatch, err)
		}
	})
}

// TestStepsOfNotificationRetentionAreBounded checks that a round of retention deletes notifications in batches, only while its
// time lasts, and that the next round continues.
func TestStepsOfNotificationRetentionAreBounded(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 4)
		defer closeStore(t, s)
		at, id := fmt.Sprint(pastDay.UnixMicro()), `unhex(printf('%012x%020x', `+fmt.Sprint(pastDay.UnixMilli())+`, i))`
		if !s.SingleProcess() {
			at = "TIMESTAMPTZ '2025-03-01 00:00:00+00'"
			id = fmt.Sprintf(`(lpad(to_hex(%d), 12, '0') || lpad(to_hex(i), 20, '0'))::uuid`, pastDay.UnixMilli())
		}
		series := fmt.Sprintf(` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT `, 2*store.PruneBatch)
		exec(t, s, `INSERT INTO alert_news (shard, id)`+series+`2, `+id+` FROM n`)
		exec(t, s, `INSERT INTO delivery (shard, alert_id, channel, notice, unclosed)`+series+`3, `+id+`, 'ops', i, FALSE FROM n`)
		exec(t, s, `INSERT INTO notice (channel, route, topic, alerts, planned_at, next_at, sent_at)`+series+`'ops', 'all', '', 1, `+at+`, `+at+`, `+at+` FROM n`)
		left := func() (rows [3]int) {
			if err := s.DB().QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM alert_news), (SELECT count(*) FROM delivery), (SELECT count(*) FROM notice)`).Scan(&rows[0], &rows[1], &rows[2]); err != nil {
				t.Fatal(err)
			}
			return rows
		}
		const all, some = 2 * store.PruneBatch, store.PruneBatch
		// Each shard has two kinds of rows, and a kind ends with an empty step.
		for _, round := range []struct {
			steps int
			want  [3]int
		}{{0, [3]int{all, all, all}}, {5, [3]int{some, all, all}}, {9, [3]int{0, some, all}}, {10, [3]int{0, 0, some}}, {9, [3]int{0, 0, 0}}} {
			if err := s.PruneNoticesOnce(t.Context(), pastDay.Add(futurejobs.Day), round.steps); err != nil || left() != round.want {
				t.Errorf("%d steps leave %v rows, want %v: %v", round.steps, left(), round.want, err)
			}
		}
	})
}

// TestKeptNotificationsDoNotStopRetention checks that old notifications of kept alerts do not keep those behind them from deletion.
func TestKeptNotificationsDoNotStopRetention(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 4)
		defer closeStore(t, s)
		at, id := fmt.Sprint(pastDay.UnixMicro()), `unhex(printf('%012x%020x', `+fmt.Sprint(pastDay.Add(2*futurejobs.Day).UnixMilli())+`, i))`
		if !s.SingleProcess() {
			at = "TIMESTAMPTZ '2025-03-01 00:00:00+00'"
			id = fmt.Sprintf(`(lpad(to_hex(%d), 12, '0') || lpad(to_hex(i), 20, '0'))::uuid`, pastDay.Add(2*futurejobs.Day).UnixMilli())
		}
		const kept = store.PruneBatch
		series := ` WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT `
		exec(t, s, `INSERT INTO delivery (shard, alert_id, channel, notice, unclosed)`+fmt.Sprintf(series, kept)+`3, `+id+`, 'ops', i, FALSE FROM n`)
		exec(t, s, `INSERT INTO notice (channel, route, topic, alerts, planned_at, next_at, sent_at)`+fmt.Sprintf(series, kept+1)+`'ops', 'all', '', 1, `+at+`, `+at+`, `+at+` FROM n`)
		var left int
		if err := s.PruneNoticesOnce(t.Context(), pastDay.Add(futurejobs.Day), 100); err != nil {
			t.Fatal(err)
		}
		if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM notice`).Scan(&left); err != nil || left != kept {
			t.Errorf("%d notifications are left, want the %d with a delivery: %v", left, kept, err)
		}
	})
}

// TestRetentionReadsRangesOfIndexes checks that Postgres finds the rows to delete by ranges of the primary keys, and the job of each
// alert by its key.
func TestRetentionReadsRangesOfIndexes(t *testing.T) {
	t.Parallel()
	f := onPostgres(t, time.Hour)
	seedPast(t, f.Store, 20000)
	exec(t, f.Store, `ANALYZE alert, history`)
	from, end := alerts.ID{}, alerts.ID{0xff}
	for name, rules := range map[string][]int32{"all rules": nil, "a rule": {11}} {
		plan := f.plan(f.DueAlerts(rules), int16(0), from[:], end[:])
		if strings.Contains(plan, "Seq Scan on alert ") || !strings.Contains(plan, "alert_pkey") || !strings.Contains(plan, "future_job_shard_rule_id_key_key") && !strings.Contains(plan, "never executed") {
			t.Errorf("alerts of %s:\n%s", name, plan)
		}
	}
	text, args := f.DueHistory(t.Context(), pastDay, "k9")
	if plan := f.plan(text, args...); strings.Contains(plan, "Seq Scan") {
		t.Errorf("history:\n%s", plan)
	}
}

// TestEndsOfHistoryAreFoundByIndex checks that SQLite finds the first and the last ended job without reading the others.
func TestEndsOfHistoryAreFoundByIndex(t *testing.T) {
	s := open(t, store.Options{DataDir: storetest.DataDir(t)})
	if plan := planOnSQLite(t, s, store.HistoryEnds); strings.Count(plan, "SEARCH history") != 2 || strings.Contains(plan, "SCAN history") {
		t.Errorf("it reads more rows than the first and the last one:\n%s", plan)
	}
}

// planOnSQLite returns SQLite's plan of a statement.
func planOnSQLite(t *testing.T, s *store.Store, text string, args ...any) (plan string) {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var line string
		if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
			t.Fatal(err)
		}
		plan += line + "\n"
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan
}

// plannedStatements returns the statements about planned ticks with their arguments, for a rule with one schedule s1.
func plannedStatements(of, ids string, now any) map[string][]any {
	ofRule, heldOfRule := store.EndPlanned(`rule_id = ?`)
	ofSchedules, heldOfSchedules := store.EndPlanned(`rule_id = ? AND schedule_id IN ` + ids)
	return map[string][]any{
		store.DueShards(of): {now, now, now}, ofRule: {now, 7}, heldOfRule: {7}, ofSchedules: {now, 7}, heldOfSchedules: {7},
	}
}

// TestPlannedTicksAreFoundByIndex checks that neither database reads the other ticks of a rule to find its planned ones.
func TestPlannedTicksAreFoundByIndex(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		s := open(t, store.Options{DataDir: storetest.DataDir(t)})
		for text, args := range plannedStatements(`(SELECT json_extract(value, '$[0]') AS rule_id, json_extract(value, '$[1]') AS shard FROM json_each('[[7, 1]]')) AS d`, `(SELECT value FROM json_each('["s1"]'))`, 1) {
			plan := planOnSQLite(t, s, text, args...)
			if !strings.Contains(plan, "schedule_tick_planned") || strings.Contains(plan, "PRIMARY KEY (rule_id=?") {
				t.Errorf("%s\n%s", text, plan)
			}
		}
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		f := onPostgres(t, time.Hour)
		exec(t, f.Store, `INSERT INTO schedule_tick (rule_id, schedule_id, tick_at, shard, decided_at, outcome, missed, attempts)
SELECT 7, 's' || i % 10, now() - i * interval '1 minute', i % 4, now(), 'emitted', 0, 1 FROM generate_series(1, 20000) i`)
		for range 2 {
			for text, args := range plannedStatements(`(SELECT 7 AS rule_id, 1 AS shard) AS d`, `(SELECT 's1')`, time.Now()) {
				plan := f.plan(text, args...)
				if !strings.Contains(plan, "schedule_tick_planned") || strings.Contains(plan, "schedule_tick_pkey") || strings.Contains(plan, "Seq Scan on schedule_tick") {
					t.Errorf("%s\n%s", text, plan)
				}
			}
			exec(t, f.Store, `ANALYZE schedule_tick`)
		}
	})
}

// TestTicksOfRuleAreFoundByIndex checks that both databases list the ticks of a rule by an index: all in their order, those
// with an outcome of few alone, and searched ones up to a number.
func TestTicksOfRuleAreFoundByIndex(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		f     futurejobs.TickFilter
		index string
	}{
		"all":     {futurejobs.TickFilter{After: pastDay}, "schedule_tick_time"},
		"failed":  {futurejobs.TickFilter{Outcome: futurejobs.TickFailed, Before: pastDay.AddDate(9, 0, 0)}, "schedule_tick_outcome"},
		"planned": {futurejobs.TickFilter{Outcome: futurejobs.TickPlanned}, "schedule_tick_planned"},
		"emitted": {futurejobs.TickFilter{Outcome: futurejobs.TickEmitted}, "schedule_tick_time"},
		"missed":  {futurejobs.TickFilter{Missed: true}, "schedule_tick_time"},
		"late":    {futurejobs.TickFilter{LateBy: time.Minute}, "schedule_tick_time"},
	}
	statement := func(s *store.Store, f futurejobs.TickFilter) (string, []any) {
		text, args, err := s.TickStatement(futurejobs.ScheduleRef{RuleID: 7}, f)
		if err != nil {
			t.Error(err)
		}
		return text, args
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		s := open(t, store.Options{DataDir: storetest.DataDir(t)})
		for name, test := range tests {
			text, args := statement(s, test.f)
			plan := planOnSQLite(t, s, text, args...)
			isSorted := strings.Contains(plan, "TEMP B-TREE")
			if !strings.Contains(plan, "schedule_tick USING INDEX "+test.index) || isSorted != (name == "planned") {
				t.Errorf("%s:\n%s", name, plan)
			}
		}
	})
	t.Run("Postgres", func(t *testing.T) {
		t.Parallel()
		f := onPostgres(t, time.Hour)
		exec(t, f.Store, `INSERT INTO schedule_tick (rule_id, schedule_id, tick_at, shard, decided_at, outcome, missed, attempts)
SELECT 7, 's' || i % 10, now() - i * interval '1 minute', i % 4, now(), CASE WHEN i % 1000 = 0 THEN 'failed' WHEN i < 20 THEN 'planned' ELSE 'emitted' END, 0, 1
FROM generate_series(1, 20000) i`)
		for _, isAnalyzed := range []bool{false, true} {
			for name, test := range tests {
				text, args := statement(f.Store, test.f)
				plan := f.plan(text, args...)
				isSorted := strings.Contains(plan, "Sort Key")
				if !strings.Contains(plan, test.index) || strings.Contains(plan, "Seq Scan on schedule_tick") || isAnalyzed && isSorted && name != "planned" {
					t.Errorf("%s:\n%s", name, plan)
				}
			}
			exec(t, f.Store, `ANALYZE schedule_tick`)
		}
	})
}

// TestSearchOfTicksIsBounded checks that a page of a search ends after a number of ticks, and that the next pages find the rest.
func TestSearchOfTicksIsBounded(t *testing.T) {
	onAllStores(t, func(t *testing.T, reopen func(int) (*store.Store, error)) {
		s := openStore(t, reopen, 4)
		defer closeStore(t, s)
		at := fmt.Sprintf("%d + i / 3", pastDay.UnixMicro())
		if !s.SingleProcess() {
			at = "TIMESTAMPTZ '2025-03-01 00:00:00+00' + i / 3 * interval '1 second'"
		}
		exec(t, s, fmt.Sprintf(`INSERT INTO schedule_tick (rule_id, schedule_id, tick_at, shard, decided_at, outcome, missed, attempts)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT 7, 's' || i, %s, 0, %s, 'emitted', CASE WHEN i %% 40 = 0 THEN 2 ELSE 0 END, 1 FROM n`, at, at))
		for limit, want := range map[int][]string{1: {"s80", "", "s40", "", ""}, 50: {"s80", "", "s40", "", ""}} {
			var pages []string
			for f := (futurejobs.TickFilter{Missed: true, Limit: limit}); ; {
				page, err := s.SearchTicks(t.Context(), futurejobs.ScheduleRef{RuleID: 7}, f, 21)
				if err != nil {
					t.Fatal(err)
				}
				ids := ""
				for _, tick := range page.Items {
					ids += tick.ID
				}
				pages = append(pages, ids)
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
			}
			if !slices.Equal(pages, want) {
				t.Errorf("pages of %d: %q, want %q", limit, pages, want)
			}
		}
	})
}
