package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
)

// StoredTickStore keeps the ticks of stored schedules.
type StoredTickStore struct{ *database }

// DueRuleShards returns the rules and shards, out of those given, with a due schedule or with a planned tick without an
// event in transit, by rule and shard. It reads one row of an index for each: Postgres would hash the rows of an EXISTS, and
// read an index of millions of schedules for that.
func (s *StoredTickStore) DueRuleShards(ctx context.Context, of []futurejobs.RuleShard, now time.Time) ([]futurejobs.DueRuleShard, error) {
	rows := make([][]any, len(of))
	for i, o := range of {
		rows[i] = []any{o.RuleID, o.Shard}
	}
	text, args, err := rowTable(s.database, []rowField{{"rule_id", ints}, {"shard", smallints}}, rows)
	if err != nil {
		return nil, wrapErr("due schedules", err)
	}
	due, err := query(ctx, s.read, func(row scanner, r *futurejobs.DueRuleShard) error {
		return row.Scan(&r.RuleID, &r.Shard, &r.IsPlanned)
	}, dueShards(text), append([]any{now, now, now}, args...)...)
	if err != nil {
		return nil, wrapErr("due schedules", err)
	}
	return due, nil
}

// dueShards returns the statement of DueRuleShards for a table of rules and shards. It sorts the planned ticks so that SQLite
// reads their index, and not all ticks of the rule.
func dueShards(of string) string {
	return rebindPlaceholders(`
SELECT rule_id, shard, is_planned FROM (
	SELECT d.rule_id, d.shard,
		(SELECT s.next_at FROM schedule s WHERE s.shard = d.shard AND s.rule_id = d.rule_id AND s.next_at IS NOT NULL ORDER BY s.next_at LIMIT 1) <= ? AS is_due,
		(SELECT t.tick_at FROM schedule_tick t WHERE t.shard = d.shard AND t.rule_id = d.rule_id AND t.outcome = 'planned' AND t.held_until <= ? AND (t.retry_at IS NULL OR t.retry_at <= ?) ORDER BY t.tick_at LIMIT 1) IS NOT NULL AS is_planned
	FROM ` + of + `
) AS found WHERE is_due OR is_planned ORDER BY rule_id, shard`)
}

// DueSchedules returns schedules of a rule that are due by now, up to limit of each shard of a fence, the earliest of each
// shard first.
func (s *StoredTickStore) DueSchedules(ctx context.Context, of futurejobs.TickFence, now time.Time, limit int) ([]futurejobs.Schedule, error) {
	parts, waiting := make([]string, len(of.Held)), ""
	if of.IsInOrder { // the last decided tick is the only one that may be planned
		waiting = ` AND NOT EXISTS (SELECT 1 FROM schedule_tick t WHERE t.rule_id = s.rule_id AND t.schedule_id = s.id AND t.tick_at = s.last_at AND ` + unindexed(`t.outcome = 'planned'`) + `)`
	}
	var args []any
	for i, h := range of.Held {
		parts[i] = `SELECT * FROM (SELECT ` + scheduleColumns + ` FROM schedule s WHERE s.shard = ? AND s.rule_id = ? AND s.next_at <= ?` + waiting + ` ORDER BY s.next_at, s.id LIMIT ?) AS due`
		args = append(args, h.Shard, of.RuleID, now, limit)
	}
	due, err := query(ctx, s.read, readSchedule, rebindPlaceholders(strings.Join(parts, ` UNION ALL `)), args...)
	if err != nil {
		return nil, wrapErr("due schedules", err)
	}
	return due, nil
}

// DecideTicks moves schedules to their next ticks and records the decided ones, all in one transaction. It returns the
// recorded ticks: a schedule that changed meanwhile has none, and a tick that has a record already is not decided again. A
// planned tick belongs to the caller for the time of the fence.
func (s *StoredTickStore) DecideTicks(ctx context.Context, fence futurejobs.TickFence, decided []futurejobs.DecidedTick) (recorded []futurejobs.PlannedTick, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		recorded = nil
		if err := s.checkTickFence(ctx, tx, fence, now); err != nil {
			return err
		}
		moved, err := s.moveSchedules(ctx, tx, fence.RuleID, decided)
		if err != nil {
			return err
		}
		of := slices.DeleteFunc(slices.Clone(decided), func(d futurejobs.DecidedTick) bool { return !moved[d.Schedule.ID] })
		inserted, err := insertTicks(ctx, s.database, tx, now, now.Add(fence.HoldFor), of)
		if err != nil {
			return err
		}
		for _, d := range decided {
			if inserted[d.Schedule.ID] {
				recorded = append(recorded, futurejobs.PlannedTick{Data: d.Schedule.Data, ScheduleTick: futurejobs.ScheduleTick{
					ScheduleRef: futurejobs.ScheduleRef{RuleID: fence.RuleID, ID: d.Schedule.ID}, At: d.At, DecidedAt: now, Outcome: d.Outcome, Missed: d.Missed, Attempts: attemptsOf(d.Outcome), Reason: d.Reason,
				}})
			}
		}
		return nil
	})
	if err != nil {
		return nil, wrapErr("decide ticks", err)
	}
	return recorded, nil
}

// attemptsOf returns the first number of attempts to publish the event of a tick.
func attemptsOf(o futurejobs.TickOutcome) int {
	if o == futurejobs.TickPlanned {
		return 1
	}
	return 0
}

// checkTickFence checks a fence. It then holds until the transaction ends.
func (s *StoredTickStore) checkTickFence(ctx context.Context, tx *sql.Tx, f futurejobs.TickFence, now time.Time) error {
	if err := s.checkRuleSetForOlderNodes(ctx, tx, f.Revision, now); err != nil {
		return err
	}
	var id int32
	err := tx.QueryRowContext(ctx, `SELECT id FROM rule WHERE id = $1 AND revision <= $2 AND deleted_at IS NULL AND (gate_until IS NULL OR gate_until <= $3)`+s.forShare(),
		f.RuleID, f.Revision, now).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return futurejobs.ErrRulesChanged
	}
	if err != nil {
		return err
	}
	return s.checkAllHeld(ctx, tx, f.Held, now)
}

// checkAllHeld returns ErrNotHeld unless all shards are held, and stay held until the transaction ends. Renewals and other
// transactions that check the same shards do not wait for it.
func (s *StoredTickStore) checkAllHeld(ctx context.Context, tx *sql.Tx, held []futurejobs.HeldShard, now time.Time) error {
	rows := make([][]any, len(held))
	for i, h := range held {
		rows[i] = []any{h.Shard, h.Epoch}
	}
	text, args, err := rowTable(s.database, []rowField{{"shard", smallints}, {"epoch", bigints}}, rows)
	if err != nil {
		return err
	}
	found, err := query(ctx, tx, func(row scanner, shard *int16) error { return row.Scan(shard) }, rebindPlaceholders(`SELECT l.shard FROM `+text+` JOIN shard_lease l ON l.shard = d.shard AND l.epoch = d.epoch
WHERE l.expires_at > ?`+s.forKeyShareOf("l")), append(args, now)...)
	if err != nil {
		return err
	}
	if len(found) < len(held) {
		return futurejobs.ErrNotHeld
	}
	return nil
}

// moveSchedules moves schedules to their next ticks, and returns the ids of those that were as decided.
func (s *StoredTickStore) moveSchedules(ctx context.Context, tx *sql.Tx, rule int32, decided []futurejobs.DecidedTick) (map[string]bool, error) {
	rows := make([][]any, len(decided))
	for i, d := range decided {
		rows[i] = []any{rule, d.Schedule.ID, d.Schedule.Version, d.Schedule.NextAt, d.At, d.Next}
	}
	text, args, err := rowTable(s.database, []rowField{
		{"rule_id", ints}, {"schedule_id", texts}, {"read_version", bigints}, {"read_next_at", timestamptzs}, {"tick_at", timestamptzs}, {"after_at", timestamptzs},
	}, rows)
	if err != nil {
		return nil, err
	}
	return scheduleIDs(ctx, tx, rebindPlaceholders(`UPDATE schedule SET last_at = d.tick_at, next_at = d.after_at FROM `+text+`
WHERE schedule.rule_id = d.rule_id AND schedule.id = d.schedule_id AND schedule.version = d.read_version AND `+unindexed(`schedule.next_at = d.read_next_at`)+` RETURNING id`), args...)
}

// scheduleIDs returns the ids of a statement's rows.
func scheduleIDs(ctx context.Context, tx *sql.Tx, text string, args ...any) (map[string]bool, error) {
	all, err := query(ctx, tx, func(row scanner, id *string) error { return row.Scan(id) }, text, args...)
	ids := make(map[string]bool, len(all))
	for _, id := range all {
		ids[id] = true
	}
	return ids, err
}

// insertTicks records one tick of each of some schedules of a rule, with the time until which planned ones belong to the
// caller. It returns the ids of the schedules whose ticks it recorded. A tick that was recorded before keeps its row: a clock was
// ahead, or the schedule was replaced while its former text ticked.
func insertTicks(ctx context.Context, s *database, tx *sql.Tx, now, until time.Time, ticks []futurejobs.DecidedTick) (map[string]bool, error) {
	if len(ticks) == 0 {
		return nil, nil
	}
	rows := make([][]any, len(ticks))
	for i, d := range ticks {
		var held any
		if d.Outcome == futurejobs.TickPlanned {
			held = until
		}
		rows[i] = []any{d.Schedule.RuleID, d.Schedule.ID, d.At, d.Schedule.Shard, now, string(d.Outcome), int32(d.Missed), int32(attemptsOf(d.Outcome)), held, d.Reason} //nolint:gosec // bounded by the seconds of a schedule's life
	}
	text, args, err := rowTable(s, []rowField{
		{"rule_id", ints},
		{"schedule_id", texts},
		{"tick_at", timestamptzs},
		{"shard", smallints},
		{"decided_at", timestamptzs},
		{"outcome", texts},
		{"missed", ints},
		{"attempts", ints},
		{"held_until", timestamptzs},
		{"reason", texts},
	}, rows)
	if err != nil {
		return nil, err
	}
	return scheduleIDs(ctx, tx, rebindPlaceholders(`INSERT INTO schedule_tick (rule_id, schedule_id, tick_at, shard, decided_at, outcome, missed, attempts, held_until, reason)
SELECT d.rule_id, d.schedule_id, d.tick_at, d.shard, d.decided_at, d.outcome, d.missed, d.attempts, d.held_until, NULLIF(d.reason, '') FROM `+text+` WHERE TRUE
ON CONFLICT (rule_id, schedule_id, tick_at) DO NOTHING RETURNING schedule_id`), args...)
}

// ClaimTicks returns up to limit planned ticks of a rule and its shards without an event in transit, the earliest of each shard
// first. They belong to the caller for the time of the fence, and each counts an attempt.
func (s *StoredTickStore) ClaimTicks(ctx context.Context, fence futurejobs.TickFence, limit int) (claimed []futurejobs.PlannedTick, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if err := s.checkTickFence(ctx, tx, fence, now); err != nil {
			return err
		}
		var found []futurejobs.PlannedTick
		for _, h := range fence.Held {
			of, err := query(ctx, tx, readPlannedTick, `SELECT t.rule_id, t.schedule_id, t.tick_at, t.decided_at, t.emitted_at, t.outcome, t.missed, t.attempts + 1, t.retry_at, COALESCE(t.reason, ''), s.data
FROM schedule_tick t LEFT JOIN schedule s ON s.rule_id = t.rule_id AND s.id = t.schedule_id
WHERE t.shard = $1 AND t.rule_id = $2 AND t.outcome = 'planned' AND t.held_until <= $3 AND (t.retry_at IS NULL OR t.retry_at <= $3) ORDER BY t.tick_at LIMIT $4`, h.Shard, fence.RuleID, now, limit-len(found))
			if err != nil {
				return err
			}
			found = append(found, of...)
		}
		claimed, err = s.hold(ctx, tx, found, now.Add(fence.HoldFor))
		return err
	})
	if err != nil {
		return nil, wrapErr("claim ticks", err)
	}
	return claimed, nil
}

// hold counts an attempt of planned ticks and holds changes of their schedules off until a time. It returns those that are
// still planned.
func (s *StoredTickStore) hold(ctx context.Context, tx *sql.Tx, ticks []futurejobs.PlannedTick, until time.Time) ([]futurejobs.PlannedTick, error) {
	if len(ticks) == 0 {
		return nil, nil
	}
	text, args, err := rowTable(s.database, keyFields, tickKeys(ticks))
	if err != nil {
		return nil, err
	}
	type key struct {
		id string
		at time.Time
	}
	held, err := query(ctx, tx, func(row scanner, k *key) error { return row.Scan(&k.id, at(&k.at)) }, rebindPlaceholders(`UPDATE schedule_tick SET held_until = ?, retry_at = NULL, attempts = attempts + 1 FROM `+text+`
WHERE `+isPlanned+` RETURNING schedule_id, tick_at`), append([]any{until}, args...)...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ticks, func(t futurejobs.PlannedTick) bool { return !slices.Contains(held, key{t.ID, t.At}) }), nil
}

// keyFields and tickKeys are planned ticks as the table d of a statement. isTick is the condition that finds their rows, and
// isPlanned the one that finds those without another outcome.
var (
	keyFields = []rowField{{"rule", ints}, {"id", texts}, {"at", timestamptzs}}
	isTick    = `schedule_tick.rule_id = d.rule AND schedule_tick.schedule_id = d.id AND schedule_tick.tick_at = d.at`
	isPlanned = isTick + ` AND ` + unindexed(`schedule_tick.outcome = 'planned'`)
)

func tickKeys(ticks []futurejobs.PlannedTick) [][]any {
	rows := make([][]any, len(ticks))
	for i, t := range ticks {
		rows[i] = []any{t.RuleID, t.ID, t.At}
	}
	return rows
}

func readPlannedTick(row scanner, p *futurejobs.PlannedTick) error {
	var data sql.Null[string]
	err := row.Scan(append(tickFields(&p.ScheduleTick), &data)...)
	if data.Valid {
		p.Data = []byte(data.V)
	}
	return err
}

func tickFields(t *futurejobs.ScheduleTick) []any {
	return []any{&t.RuleID, &t.ID, at(&t.At), at(&t.DecidedAt), at(&t.EmittedAt), &t.Outcome, &t.Missed, &t.Attempts, at(&t.RetryAt), &t.Reason}
}

// MarkEmitted records that a stream has the events of planned ticks, or that a webhook accepted them. A tick that has ended as
// unknown meanwhile is known then.
func (s *StoredTickStore) MarkEmitted(ctx context.Context, ticks []futurejobs.PlannedTick) error {
	if len(ticks) == 0 {
		return nil
	}
	text, args, err := rowTable(s.database, keyFields, tickKeys(ticks))
	if err == nil {
		err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
			_, err := exec(ctx, tx, rebindPlaceholders(`UPDATE schedule_tick SET outcome = 'emitted', emitted_at = ?, held_until = NULL, retry_at = NULL, reason = NULL FROM `+text+`
WHERE `+isTick+` AND `+unindexed(`schedule_tick.outcome IN ('planned', 'unknown')`)),
				append([]any{now}, args...)...)
			return err
		})
	}
	if err != nil {
		return wrapErr("mark events of ticks", err)
	}
	return nil
}

// PutOffTicks records failed attempts to post the events of planned ticks. They stay planned until their next attempt, or end
// as failed.
func (s *StoredTickStore) PutOffTicks(ctx context.Context, ticks []futurejobs.PlannedTick) error {
	rows := make([][]any, len(ticks))
	for i, t := range ticks {
		rows[i] = []any{t.RuleID, t.ID, t.At, t.RetryAt, t.Reason}
	}
	text, args, err := rowTable(s.database, append(slices.Clone(keyFields), rowField{"next_at", timestamptzs}, rowField{"failure", texts}), rows)
	if err == nil {
		err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
			_, err := exec(ctx, tx, rebindPlaceholders(`UPDATE schedule_tick SET outcome = CASE WHEN d.next_at IS NULL THEN 'failed' ELSE 'planned' END, held_until = ?, retry_at = d.next_at, reason = d.failure
FROM `+text+` WHERE `+isPlanned), append([]any{now}, args...)...)
			return err
		})
	}
	if err != nil {
		return wrapErr("put off ticks", err)
	}
	return nil
}

// ScheduleTicks returns a page of the ticks of a schedule, newest first; of all schedules of the rule, also deleted ones, if
// the reference has no ID. A page of a rule that is searched may be shorter than its limit, also empty, though others follow.
func (s *StoredTickStore) ScheduleTicks(ctx context.Context, ref futurejobs.ScheduleRef, f futurejobs.TickFilter) (futurejobs.Page[futurejobs.ScheduleTick], error) {
	l := tickList{s, ref, f, searchedTicks}
	page, err := l.page(ctx)
	if err != nil {
		return futurejobs.Page[futurejobs.ScheduleTick]{}, wrapErr("ticks of schedules", err)
	}
	return page, nil
}
