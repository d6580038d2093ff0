package store

import (
	"context"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// Gauges is the state of the database in numbers.
type Gauges struct {
	Pending     int64
	Due         int64 // pending jobs that are due
	Unpublished int64 // alerts
	Outages     int64 // open ones
	DeadLetters int64

	// The oldest of each; zero: none.
	OldestDue        time.Time
	OldestHistory    time.Time // approximate, to the second or so: rows are not sorted
	OldestAlert      time.Time
	OldestDeadLetter time.Time
}

// PoolUse is the use of a pool of connections.
type PoolUse struct {
	Name             string
	InUse, Idle, Max int
	Waits            int64         // requests that found no free connection
	Waited           time.Duration // of these requests, in total
}

// GaugeStore counts rows and outcomes for metrics.
type GaugeStore struct{ *database }

// Gauges counts rows and finds the oldest ones. It reads an index of all pending jobs: call it every few seconds at
// most.
func (s *GaugeStore) Gauges(ctx context.Context) (Gauges, error) {
	var g Gauges
	err := s.read.QueryRowContext(ctx, `SELECT
	(SELECT count(*) FROM future_job),
	(SELECT coalesce(sum(length(ids)), 0) / 16 FROM alert_outbox),
	(SELECT count(*) FROM dead_letter),
	(SELECT count(*) FROM outage WHERE closed_at IS NULL),
	(SELECT ended_at FROM history LIMIT 1),
	(SELECT at FROM dead_letter ORDER BY id LIMIT 1)`).
		Scan(&g.Pending, &g.Unpublished, &g.DeadLetters, &g.Outages, at(&g.OldestHistory), at(&g.OldestDeadLetter))
	if err != nil {
		return g, wrapErr("gauges", err)
	}
	if err := s.ofShards(ctx, `SELECT count(*) AS n, min(next_check_at) AS t FROM future_job WHERE shard = %d AND next_check_at <= now()`,
		&g.Due, &g.OldestDue); err != nil {
		return g, wrapErr("gauges", err)
	}
	var shards int64
	if err := s.ofShards(ctx, `SELECT 1 AS n, (SELECT decided_at FROM alert WHERE shard = %d ORDER BY id LIMIT 1) AS t`,
		&shards, &g.OldestAlert); err != nil {
		return g, wrapErr("gauges", err)
	}
	return g, nil
}

// ofShards adds up n and finds the least t of a statement for each shard.
func (s *GaugeStore) ofShards(ctx context.Context, text string, n *int64, t *time.Time) error {
	parts := make([]string, s.shards)
	for shard := range parts {
		parts[shard] = fmt.Sprintf(text, shard)
	}
	return s.read.QueryRowContext(ctx, `SELECT sum(n), min(t) FROM (`+union(parts)+`) AS q`).Scan(n, at(t))
}

// Balance is the sum of all jobs: Created equals Pending, Archived and Pruned together.
type Balance struct {
	Created  int64
	Pending  int64
	Archived int64
	Pruned   int64
}

// Balance counts in one snapshot. It reads the whole history: it is for verification and not for a running node.
func (s *GaugeStore) Balance(ctx context.Context) (Balance, error) {
	var b Balance
	err := s.read.QueryRowContext(ctx, `SELECT
	(SELECT sum(created) FROM event_cursor),
	(SELECT count(*) FROM future_job),
	(SELECT count(*) FROM history),
	(SELECT rows FROM pruned WHERE name = 'history')`).Scan(&b.Created, &b.Pending, &b.Archived, &b.Pruned)
	if err != nil {
		return b, wrapErr("balance", err)
	}
	return b, nil
}

// OutcomeCounts counts the jobs that ended at from or later and before until, by hour, rule and outcome. It reads all
// of them: frequent callers should cache the result.
func (s *GaugeStore) OutcomeCounts(ctx context.Context, from, until time.Time) ([]futurejobs.OutcomeCount, error) {
	w, err := s.since(ctx, from)
	if err != nil {
		return nil, wrapErr("count what ended", err)
	}
	w.and(`f.ended_at < ?`, until)
	ends, err := query(ctx, s.read, func(row scanner, e *futurejobs.OutcomeCount) error {
		return row.Scan(at(&e.Hour), &e.Rule, &e.Entity, (*string)(&e.Outcome), &e.Jobs, &e.AfterStep)
	}, rebindPlaceholders(`SELECT e.hour, r.name, r.entity, e.outcome, e.jobs, e.late FROM (
	SELECT `+s.hourOf(`f.ended_at`)+` AS hour, f.rule_id, f.outcome, count(*) AS jobs,
		sum(CASE WHEN f.step > 0 THEN 1 ELSE 0 END) AS late FROM history f WHERE `+w.text+` GROUP BY 1, 2, 3
) AS e JOIN rule r ON r.id = e.rule_id ORDER BY e.hour, r.name, r.id, e.outcome`), w.args...)
	if err != nil {
		return nil, wrapErr("count what ended", err)
	}
	return ends, nil
}

// Slowest returns the jobs that ended at from or later with the slowest checks, slowest first. Like OutcomeCounts, it
// reads all of them.
func (s *GaugeStore) Slowest(ctx context.Context, from time.Time, limit int) ([]futurejobs.EndedJob, error) {
	w, err := s.since(ctx, from)
	if err != nil {
		return nil, wrapErr("slowest checks", err)
	}
	slowest, err := query(ctx, s.read, readEnded, rebindPlaceholders(`SELECT `+endedColumns+` FROM history f JOIN rule r ON r.id = f.rule_id
WHERE `+w.text+` AND f.checks > 0 ORDER BY coalesce(f.check_slowest, f.check_total) DESC, f.ended_at DESC, f.shard, f.id LIMIT ?`), append(w.args, limit)...)
	if err != nil {
		return nil, wrapErr("slowest checks", err)
	}
	return slowest, nil
}
