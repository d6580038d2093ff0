package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// pruneBudget bounds a deletion of history, alerts, notifications or applied ticks in one round of retention: of the rows that
// are older than every period, and by rule and outcome. The next round continues.
const pruneBudget = 5 * time.Second

// budget begins a deletion, and returns whether it may go on.
func budget() (more func() bool) {
	startedAt := time.Now()
	return func() bool { return time.Since(startedAt) < pruneBudget }
}

// openAgain is the time after which the alerts of a day that were open or unpublished are tried again.
const openAgain = time.Hour

// retentionEngine deletes and counts parts of the history.
type retentionEngine interface {
	// endedBefore returns the condition for the jobs of the history f that dropHistoryBefore deletes.
	endedBefore(ctx context.Context, before time.Time) (filter, error)
	// endedOn returns the condition for the jobs of the history f that ended on a day.
	endedOn(ctx context.Context, day time.Time) (filter, error)
	// historyDays returns the days that may have history before now, in order.
	historyDays(ctx context.Context, now time.Time) ([]time.Time, error)
	// dropHistoryOf deletes the jobs of the history f that ended on a day and meet a condition, while more says so, and
	// returns whether all are deleted.
	dropHistoryOf(ctx context.Context, day time.Time, shards []int16, which filter, more func() bool) (n int64, all bool, err error)
	// dropEmptyDay deletes the table of a day if it is empty.
	dropEmptyDay(ctx context.Context, day time.Time) error
}

// RetentionStore deletes history and alerts of rules with their own retention, and counts the rows that retention will delete.
type RetentionStore struct {
	*database
	alerts alertRetention
}

// retentionPlan reads the periods of the rules, also of deleted ones.
func (s *RetentionStore) retentionPlan(ctx context.Context, r Retention) (retentionPlan, error) {
	own, err := query(ctx, s.read, readRuleRetention, `SELECT id, name, keep FROM rule WHERE keep IS NOT NULL ORDER BY id`)
	return retentionPlan{r, own}, err
}

// CountRetention counts the rows that Prune would delete at a time, by kind, rule and outcome, and deletes nothing. It reads
// only the days that are not pruned yet.
func (s *RetentionStore) CountRetention(ctx context.Context, q RetentionQuery) ([]RetentionCount, error) {
	c := retentionCounter{RetentionStore: s, query: q, sums: make(map[RetentionCount]*RetentionCount)}
	if err := c.run(ctx); err != nil {
		return nil, wrapErr("count of retention", err)
	}
	all := make([]RetentionCount, 0, len(c.sums))
	for _, sum := range c.sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b RetentionCount) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), -cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Outcome, b.Outcome))
	})
	return all, nil
}

// KeptPeriods are the shortest periods of history and alerts, 0: forever, and whether retention has ever deleted rows, of any
// rule.
type KeptPeriods struct {
	History, Alerts               time.Duration
	HistoryDeleted, AlertsDeleted bool
}

// ShortestPeriods returns the shortest periods of the rules that match, by all outcomes. If rule is set, only rules with this
// name match.
func (s *RetentionStore) ShortestPeriods(ctx context.Context, r Retention, rule string, matches func(rule string) bool) (KeptPeriods, error) {
	var kept KeptPeriods
	plan, err := s.retentionPlan(ctx, r)
	if err != nil {
		return kept, wrapErr("periods of retention", err)
	}
	var deleted struct{ history, alerts, plain int64 }
	if err := s.read.QueryRowContext(ctx, `SELECT (SELECT rows FROM pruned WHERE name = 'history'), (SELECT rows FROM pruned WHERE name = 'alert'),
	(SELECT count(*) FROM rule WHERE name = $1 AND keep IS NULL)`, escape(rule)).Scan(&deleted.history, &deleted.alerts, &deleted.plain); err != nil {
		return kept, wrapErr("periods of retention", err)
	}
	plan.own = slices.DeleteFunc(plan.own, func(own ruleRetention) bool { return !matches(own.name) || rule != "" && own.name != rule })
	hasOwn := len(plan.own) > 0 && rule != "" && deleted.plain == 0 // the settings are those of no matching rule
	shortest := func(kind keptKind) (period time.Duration) {
		for i, c := range plan.classes(kind) {
			if p := plan.period(kind, c); p != 0 && (period == 0 || p < period) && (i > 0 || !hasOwn) {
				period = p
			}
		}
		return period
	}
	return KeptPeriods{shortest(keptHistory), shortest(keptAlerts), deleted.history > 0, deleted.alerts > 0}, nil
}

// prunedDay is a day with rows that retention by rule and outcome has deleted.
type prunedDay struct {
	dueDay
	againAt time.Time // zero: nothing is left of the due classes
}

// dueDays returns the days with due rows that are not deleted yet.
func (s *RetentionStore) dueDays(ctx context.Context, plan retentionPlan, kind keptKind, now time.Time) ([]dueDay, error) {
	list := s.historyDays
	if kind == keptAlerts {
		list = s.alerts.alertDays
	}
	days, err := list(ctx, now)
	if err != nil {
		return nil, err
	}
	past, err := query(ctx, s.read, func(row scanner, d *prunedDay) error { return row.Scan(at(&d.day), &d.due, at(&d.againAt)) },
		`SELECT day, due, again_at FROM pruned_day WHERE kind = $1`, kind)
	if err != nil {
		return nil, err
	}
	pruned := make(map[dueDay]prunedDay, len(past))
	for _, d := range past {
		d.day = d.day.UTC()
		pruned[d.dueDay] = d
	}
	var left []dueDay
	for _, d := range plan.dueDays(kind, days, now) {
		if known, ok := pruned[d]; !ok || !known.againAt.IsZero() && !known.againAt.After(now) {
			left = append(left, d)
		}
	}
	return left, nil
}

// pruneDays deletes the due rows of days, oldest first, while more says so.
func (s *RetentionStore) pruneDays(ctx context.Context, plan retentionPlan, kind keptKind, now time.Time, more func() bool) (total int64, err error) {
	days, err := s.dueDays(ctx, plan, kind, now)
	if err != nil {
		return 0, err
	}
	prune := s.pruneHistoryOf
	if kind == keptAlerts && len(days) > 0 {
		open, err := conditionAlerts(ctx, s.database)
		if err != nil {
			return 0, err
		}
		prune = alertDay{&s.alerts, open}.prune
	}
	for _, d := range days {
		n, left, err := prune(ctx, plan, d.day, now, more)
		total += n
		if errors.Is(err, errBudget) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if err := s.notePruned(ctx, kind, d, now, left); err != nil {
			return total, err
		}
	}
	return total, s.forgetPruned(ctx, plan, kind, now)
}

// errBudget means that the next round of retention continues.
var errBudget = errors.New("the budget is spent")

// notePruned records that the due rows of a day are deleted. left means that open or unpublished alerts
// are not deleted.
func (s *RetentionStore) notePruned(ctx context.Context, kind keptKind, d dueDay, now time.Time, left bool) error {
	var again *time.Time
	if left {
		again = new(now.Add(openAgain))
	}
	return s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		_, err := exec(ctx, tx, `INSERT INTO pruned_day (kind, day, due, again_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (kind, day) DO UPDATE SET due = excluded.due, again_at = excluded.again_at`, kind, d.day, d.due, again)
		return err
	})
}

// forgetPruned deletes the records of days that are older than every period.
func (s *RetentionStore) forgetPruned(ctx context.Context, plan retentionPlan, kind keptKind, now time.Time) error {
	longest := plan.longest(kind)
	if longest == 0 {
		return nil
	}
	_, err := exec(ctx, s.db, `DELETE FROM pruned_day WHERE kind = $1 AND day < $2`, kind, now.Add(-longest-7*futurejobs.Day))
	return err
}

// endedGroups counts the jobs of the history f that meet a condition, in one scan.
func (s *RetentionStore) endedGroups(ctx context.Context, ended filter) ([]rowGroup, error) {
	return query(ctx, s.read, func(row scanner, g *rowGroup) error {
		return row.Scan(&g.rule, &g.outcome, &g.alerted, &g.rows, at(&g.oldest))
	}, rebindPlaceholders(`SELECT f.rule_id, f.outcome, f.alert_ids IS NOT NULL, count(*), min(f.ended_at) FROM history f WHERE `+ended.text+`
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`), ended.args...)
}

// pruneHistoryOf deletes the due history of a day.
func (s *RetentionStore) pruneHistoryOf(ctx context.Context, plan retentionPlan, day, now time.Time, more func() bool) (n int64, left bool, err error) {
	ended, err := s.endedOn(ctx, day)
	if err != nil {
		return 0, false, err
	}
	groups, err := s.endedGroups(ctx, ended)
	if err != nil {
		return 0, false, err
	}
	which, some, rest := dueHistory(plan, groups, day, now)
	if some {
		var all bool
		n, all, err = s.dropHistoryOf(ctx, day, s.allShards(), which, more)
		if err == nil && !all {
			err = errBudget
		}
	}
	if err == nil && !rest && plan.isDue(keptHistory, rowClass{rule: noRule}, day, now) {
		err = s.dropEmptyDay(ctx, day)
	}
	return n, false, err
}

// dueHistory returns the condition for the due jobs of the history f, whether some are due, and whether others are left.
func dueHistory(plan retentionPlan, groups []rowGroup, day, now time.Time) (which filter, some, rest bool) {
	type kind struct {
		outcome string
		alerted bool
	}
	due := make(map[kind][]int32)
	var order []kind
	for _, g := range groups {
		if !plan.isDue(keptHistory, g.rowClass, day, now) {
			rest = true
			continue
		}
		k := kind{g.outcome, g.alerted}
		if due[k] == nil {
			order = append(order, k)
		}
		due[k] = append(due[k], g.rule)
	}
	which.text = `1 = 0`
	for _, k := range order {
		alerted := `IS NULL`
		if k.alerted {
			alerted = `IS NOT NULL`
		}
		which.text += ` OR (f.outcome = ? AND f.alert_ids ` + alerted + ` AND f.rule_id IN ` + inList(due[k]) + `)`
		which.args = append(which.args, k.outcome)
	}
	return which, len(order) > 0, rest
}
