package store

import (
	"context"
	"fmt"
	"time"
)

// Gauges is the state of the database in numbers.
type Gauges struct {
	Pending     int64
	Due         int64 // pending jobs that are due
	Unpublished int64 // alerts
	DeadLetters int64

	// The oldest of each; zero: none.
	OldestDue        time.Time
	OldestHistory    time.Time // approximate, to the second or so: rows are not sorted
	OldestAlert      time.Time
	OldestDeadLetter time.Time
}

// Gauges counts rows and finds the oldest ones. It reads an index of all pending jobs: call it every few seconds at
// most.
func (s *Store) Gauges(ctx context.Context) (Gauges, error) {
	var g Gauges
	err := s.read.QueryRowContext(ctx, `SELECT
	(SELECT count(*) FROM future_job),
	(SELECT coalesce(sum(length(ids)), 0) / 16 FROM alert_outbox),
	(SELECT count(*) FROM dead_letter),
	(SELECT ended_at FROM history LIMIT 1),
	(SELECT at FROM dead_letter ORDER BY id LIMIT 1)`).
		Scan(&g.Pending, &g.Unpublished, &g.DeadLetters, at(&g.OldestHistory), at(&g.OldestDeadLetter))
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
func (s *Store) ofShards(ctx context.Context, text string, n *int64, t *time.Time) error {
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
func (s *Store) Balance(ctx context.Context) (Balance, error) {
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
