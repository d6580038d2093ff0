package store

import (
	"context"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// gaveUpFor is the period of the count of alerts with the status gave_up.
const gaveUpFor = futurejobs.Day

// RuleJobs counts the pending jobs by rule id. It reads all pending jobs, and the alerts of a day: frequent callers
// should cache the result.
func (s *Store) RuleJobs(ctx context.Context) (map[int32]futurejobs.RuleJobs, error) {
	counts, err := s.ruleJobs(ctx)
	if err != nil {
		return nil, wrapErr("count jobs by rule", err)
	}
	return counts, nil
}

func (s *Store) ruleJobs(ctx context.Context) (map[int32]futurejobs.RuleJobs, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	pending, err := query(ctx, s.read, readRuleJobs, `SELECT rule_id, count(*), count(alert_ids),
	sum(CASE WHEN undecided > 0 THEN 1 ELSE 0 END), min(next_check_at), 0
FROM future_job GROUP BY rule_id`)
	if err != nil {
		return nil, err
	}
	from := firstAlert(now.Add(-gaveUpFor))
	gone, err := query(ctx, s.read, readRuleJobs, `SELECT a.rule_id, 0, 0, 0, NULL, count(*)
FROM shard_lease l JOIN alert a ON a.shard = l.shard
WHERE a.id >= $1 AND a.status = $2 GROUP BY a.rule_id`, from[:], alerts.GaveUp.Number())
	if err != nil {
		return nil, err
	}
	counts := make(map[int32]futurejobs.RuleJobs, len(pending))
	for _, p := range append(pending, gone...) {
		c := counts[p.rule]
		c.Waiting += p.Waiting
		c.Alerting += p.Alerting
		c.Undetermined += p.Undetermined
		c.GaveUp += p.GaveUp
		if !p.NextCheckAt.IsZero() && p.NextCheckAt.Before(futurejobs.FarFuture) {
			c.NextCheckAt = p.NextCheckAt
		}
		counts[p.rule] = c
	}
	return counts, nil
}

type ruleJobs struct {
	rule int32
	futurejobs.RuleJobs
}

func readRuleJobs(row scanner, r *ruleJobs) error {
	return row.Scan(&r.rule, &r.Waiting, &r.Alerting, &r.Undetermined, at(&r.NextCheckAt), &r.GaveUp)
}
