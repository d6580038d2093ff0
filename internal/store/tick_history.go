package store

import (
	"context"
	"database/sql"
	"time"

	futurejobs "deadman/future_jobs"
)

// insertTick records an applied tick. A tick that is applied again, since the clock was ahead before, keeps its row.
const insertTick = `
INSERT INTO tick_history (rule_id, tick_at, applied_at, outcome, missed, attempts, event_id) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (rule_id, tick_at) DO NOTHING`

// tickRow returns the arguments of insertTick.
func tickRow(t futurejobs.AppliedTick, now time.Time) []any {
	return []any{t.RuleID, t.At, now, string(t.Outcome), t.Missed, t.Attempts, optional(t.EventID)}
}

func readTick(row scanner, t *futurejobs.AppliedTick) error {
	var event sql.Null[string]
	err := row.Scan(&t.RuleID, at(&t.At), at(&t.AppliedAt), &t.Outcome, &t.Missed, &t.Attempts, &event)
	t.EventID = event.V
	return err
}

// TickStore keeps the applied ticks of schedules.
type TickStore struct{ *database }

// Ticks returns a page of the applied ticks of a rule, newest first.
func (s *TickStore) Ticks(ctx context.Context, ruleID int32, f futurejobs.TickFilter) (futurejobs.Page[futurejobs.AppliedTick], error) {
	size := futurejobs.Filter{After: f.After, Before: f.Before, Limit: f.Limit}
	w := filter{`SELECT rule_id, tick_at, applied_at, outcome, missed, attempts, event_id FROM tick_history WHERE rule_id = ?`, []any{ruleID}}
	w.timeRange(`tick_at`, size)
	if f.Outcome != "" {
		w.and(`outcome = ?`, escape(string(f.Outcome)))
	}
	if f.Missed {
		w.and(`missed > 0`)
	}
	if f.LateBy >= time.Second {
		w.and(s.secondsOf(`tick_at`, `applied_at`)+` >= ?`, int64(f.LateBy/time.Second))
	}
	if f.Cursor != "" {
		var last position
		if err := last.read("ticks", f.Cursor); err != nil {
			return futurejobs.Page[futurejobs.AppliedTick]{}, err
		}
		w.and(`tick_at < ?`, last.At)
	}
	found, err := query(ctx, s.read, readTick, rebindPlaceholders(w.text+` ORDER BY tick_at DESC LIMIT ?`), append(w.args, limit(size)+1)...)
	if err != nil {
		return futurejobs.Page[futurejobs.AppliedTick]{}, wrapErr("applied ticks", err)
	}
	return paged("ticks", found, size, func(t futurejobs.AppliedTick) position { return position{At: t.At} }), nil
}

// tickTable has the statements of retention for a table of ticks.
type tickTable struct{ rules, count, forget string }

var tickTables = []tickTable{
	{
		`SELECT r.id FROM rule r WHERE EXISTS (SELECT 1 FROM tick_history t WHERE t.rule_id = r.id) ORDER BY r.id`,
		`SELECT count(*), min(t.tick_at) FROM tick_history t WHERE t.rule_id = $1 AND t.tick_at < $2 HAVING count(*) > 0`,
		`DELETE FROM tick_history WHERE rule_id = $1 AND tick_at IN
	(SELECT t.tick_at FROM tick_history t WHERE t.rule_id = $1 AND t.tick_at < $2 ORDER BY t.tick_at LIMIT $3)`,
	},
	{ // a planned tick is kept until its event is published
		`SELECT r.id FROM rule r WHERE EXISTS (SELECT 1 FROM schedule_tick t WHERE t.rule_id = r.id) ORDER BY r.id`,
		`SELECT count(*), min(t.tick_at) FROM schedule_tick t WHERE t.rule_id = $1 AND t.tick_at < $2 AND t.outcome <> 'planned' HAVING count(*) > 0`,
		`DELETE FROM schedule_tick WHERE rule_id = $1 AND (schedule_id, tick_at) IN
	(SELECT t.schedule_id, t.tick_at FROM schedule_tick t WHERE t.rule_id = $1 AND t.tick_at < $2 AND t.outcome <> 'planned' ORDER BY t.tick_at LIMIT $3)`,
	},
}

// rulesWithTicks returns the ids of the rules with ticks in the table, also of deleted rules.
func (t tickTable) rulesWithTicks(ctx context.Context, q querier) ([]int32, error) {
	return query(ctx, q, func(row scanner, id *int32) error { return row.Scan(id) }, t.rules)
}

// forgetTicks deletes the ticks of each rule, also of deleted ones, beyond the retention of its history, while more says so.
func (s *TickStore) forgetTicks(ctx context.Context, plan retentionPlan, now time.Time, more func() bool) (total int64, err error) {
	for _, table := range tickTables {
		rules, err := table.rulesWithTicks(ctx, s.read)
		if err != nil {
			return total, err
		}
		for _, id := range rules {
			if period := plan.period(keptHistory, rowClass{rule: id}); period != 0 {
				n, err := s.pruneWhile(ctx, more, "", table.forget, id, now.Add(-period), pruneBatch)
				if total += n; err != nil {
					return total, err
				}
			}
		}
	}
	return total, nil
}
