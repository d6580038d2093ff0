package store

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	futurejobs "deadman/future_jobs"
)

// Bounds of the count of pending jobs, over all shards; a count beyond them is marked as incomplete. For all rules,
// slots are counted, and the jobs of each are a range of one index; for one rule, jobs are counted.
const (
	plannedMost       = 500_000
	plannedMostOfRule = 50_000
)

// loadFor is the retention of slot loads.
const loadFor = 2 * futurejobs.Day

// LoadStore counts the checks and ticks of each slot, past and planned.
type LoadStore struct{ *database }

// AddLoads adds a node's checks and ticks to the totals of all nodes.
func (s *LoadStore) AddLoads(ctx context.Context, loads []futurejobs.SlotLoad) error {
	if len(loads) == 0 {
		return nil
	}
	err := s.tx(ctx, func(tx *sql.Tx, _ time.Time) error {
		for _, l := range loads { // in a fixed order, so that nodes do not deadlock
			if _, err := exec(ctx, tx, `INSERT INTO slot_load (at, rule_id, checks, alerts, lag, ticks, missed_ticks, tick_lag) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (at, rule_id) DO UPDATE SET checks = slot_load.checks + excluded.checks, alerts = slot_load.alerts + excluded.alerts,
	lag = CASE WHEN slot_load.lag > excluded.lag THEN slot_load.lag ELSE excluded.lag END,
	ticks = slot_load.ticks + excluded.ticks, missed_ticks = slot_load.missed_ticks + excluded.missed_ticks,
	tick_lag = CASE WHEN slot_load.tick_lag > excluded.tick_lag THEN slot_load.tick_lag ELSE excluded.tick_lag END`,
				l.At, l.RuleID, l.Checks, l.Alerts, l.MaxLateness.Microseconds(), l.Ticks, l.MissedTicks, l.MaxTickLateness.Microseconds()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return wrapErr("add loads", err)
	}
	return nil
}

// Worked returns the checks and ticks in each part of a span, of one rule, or of all if rule is 0.
func (s *LoadStore) Worked(ctx context.Context, span futurejobs.BucketRange, rule int32) ([]futurejobs.PastLoad, error) {
	text, args := `SELECT at, sum(checks), sum(alerts), max(lag), sum(ticks), sum(missed_ticks), max(tick_lag) FROM slot_load WHERE at >= $1 AND at < $2`, []any{span.From, span.Until}
	if rule != 0 {
		text, args = text+` AND rule_id = $3`, append(args, rule)
	}
	minutes, err := query(ctx, s.read, readLoad, text+` GROUP BY at`, args...)
	if err != nil {
		return nil, wrapErr("worked", err)
	}
	parts := make([]futurejobs.PastLoad, span.Parts())
	for _, m := range minutes {
		parts[span.Part(m.At)].Add(m.PastLoad)
	}
	return parts, nil
}

func readLoad(row scanner, l *futurejobs.SlotLoad) error {
	return row.Scan(at(&l.At), &l.Checks, &l.Alerts, (*micros)(&l.MaxLateness), &l.Ticks, &l.MissedTicks, (*micros)(&l.MaxTickLateness))
}

// Planned returns the numbers of pending jobs that are due in each part of a span, and of next ticks of stored schedules in
// it, of one rule, or of all if rule is 0.
func (s *LoadStore) Planned(ctx context.Context, span futurejobs.BucketRange, rule int32) ([]futurejobs.PlannedLoad, error) {
	parts := make([]futurejobs.PlannedLoad, span.Parts())
	for shard := range s.shards {
		slots, behind, err := s.planned(ctx, shard, span, rule)
		if err != nil {
			return nil, wrapErr("planned", err)
		}
		ticks, ticksBehind, err := s.plannedTicks(ctx, shard, span, rule)
		if err != nil {
			return nil, wrapErr("planned", err)
		}
		behind = min(behind, ticksBehind)
		for _, tick := range ticks {
			parts[span.Part(tick.at)].Ticks += tick.jobs
		}
		for _, slot := range slots {
			if !slot.at.Before(span.From) && slot.at.Before(span.Until) {
				parts[span.Part(slot.at)].Jobs += slot.jobs
			}
		}
		for i := range parts {
			parts[i].More = parts[i].More || i >= behind
		}
	}
	return parts, nil
}

// planned returns the number of jobs of a shard that are due at each slot of a span, and the first part of the span
// that is not counted completely.
func (s *LoadStore) planned(ctx context.Context, shard int, span futurejobs.BucketRange, rule int32) (slots []plannedSlot, behind int, err error) {
	if rule != 0 {
		return s.plannedOf(ctx, shard, span, rule)
	}
	limit := max(plannedMost/s.shards, 1)
	slots, err = query(ctx, s.read, readPlanned, `SELECT f.next_check_at, count(*) FROM future_job f
WHERE f.shard = $1 AND f.next_check_at >= $2 AND f.next_check_at < $3
GROUP BY f.next_check_at ORDER BY f.next_check_at LIMIT `+strconv.Itoa(limit), shard, span.From, span.Until)
	behind = span.Parts()
	if len(slots) == limit {
		behind = span.Part(slots[limit-1].at)
	}
	return slots, behind, err
}

// plannedOf is planned for one rule. It reads the rule's jobs by key, in no time order.
func (s *LoadStore) plannedOf(ctx context.Context, shard int, span futurejobs.BucketRange, rule int32) (slots []plannedSlot, behind int, err error) {
	limit := max(plannedMostOfRule/s.shards, 1)
	slots, err = query(ctx, s.read, readPlanned, `SELECT t, count(*) FROM (
	SELECT f.next_check_at AS t FROM future_job f WHERE f.shard = $1 AND f.rule_id = $2 ORDER BY f.rule_id, f.key LIMIT `+strconv.Itoa(limit)+`
) AS own GROUP BY t`, shard, rule)
	counted := int64(0)
	for _, slot := range slots {
		counted += slot.jobs
	}
	if counted < int64(limit) {
		behind = span.Parts()
	}
	return slots, behind, err
}

// plannedTicks is planned for the next ticks of stored schedules.
func (s *LoadStore) plannedTicks(ctx context.Context, shard int, span futurejobs.BucketRange, rule int32) (ticks []plannedSlot, behind int, err error) {
	w := filter{`SELECT s.next_at, count(*) FROM rule r JOIN schedule s ON s.shard = ? AND s.rule_id = r.id AND s.next_at >= ? AND s.next_at < ?
WHERE r.deleted_at IS NULL`, []any{shard, span.From, span.Until}}
	if rule != 0 {
		w.and(`r.id = ?`, rule)
	}
	limit := max(plannedMost/s.shards, 1)
	ticks, err = query(ctx, s.read, readPlanned, rebindPlaceholders(w.text+` GROUP BY s.next_at ORDER BY s.next_at LIMIT ?`), append(w.args, limit)...)
	if behind = span.Parts(); len(ticks) == limit {
		behind = span.Part(ticks[limit-1].at)
	}
	return ticks, behind, err
}

// plannedSlot is the number of jobs that are due at a slot.
type plannedSlot struct {
	at   time.Time
	jobs int64
}

func readPlanned(row scanner, p *plannedSlot) error { return row.Scan(at(&p.at), &p.jobs) }

// forgetLoads deletes slot loads beyond their retention.
func (s *LoadStore) forgetLoads(ctx context.Context, now time.Time) error {
	_, err := s.pruneAll(ctx, "", `DELETE FROM slot_load WHERE (at, rule_id) IN
	(SELECT l.at, l.rule_id FROM slot_load l WHERE l.at < $1 ORDER BY l.at, l.rule_id LIMIT $2)`, now.Add(-loadFor), pruneBatch)
	return err
}
