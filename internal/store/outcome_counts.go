package store

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
)

// OutcomeCounts counts the jobs that ended at from or later and before until, by hour, rule and outcome. It reads all
// of them: frequent callers should cache the result.
func (s *Store) OutcomeCounts(ctx context.Context, from, until time.Time) ([]futurejobs.OutcomeCount, error) {
	w, err := s.since(ctx, from)
	if err != nil {
		return nil, wrapErr("count what ended", err)
	}
	w.and(`f.ended_at < ?`, until)
	ends, err := query(ctx, s.read, func(row scanner, e *futurejobs.OutcomeCount) error {
		return row.Scan(at(&e.Hour), &e.Rule, &e.Entity, (*string)(&e.Outcome), &e.Jobs)
	}, rebindPlaceholders(`SELECT e.hour, r.name, r.entity, e.outcome, e.jobs FROM (
	SELECT `+s.hourOf(`f.ended_at`)+` AS hour, f.rule_id, f.outcome, count(*) AS jobs FROM history f WHERE `+w.text+` GROUP BY 1, 2, 3
) AS e JOIN rule r ON r.id = e.rule_id ORDER BY e.hour, r.name, r.id, e.outcome`), w.args...)
	if err != nil {
		return nil, wrapErr("count what ended", err)
	}
	return ends, nil
}

// Slowest returns the jobs that ended at from or later with the slowest checks, slowest first. Like OutcomeCounts, it
// reads all of them.
func (s *Store) Slowest(ctx context.Context, from time.Time, limit int) ([]futurejobs.EndedJob, error) {
	w, err := s.since(ctx, from)
	if err != nil {
		return nil, wrapErr("slowest looks", err)
	}
	slowest, err := query(ctx, s.read, readEnded, rebindPlaceholders(`SELECT `+endedColumns+` FROM history f JOIN rule r ON r.id = f.rule_id
WHERE `+w.text+` AND f.checks > 0 ORDER BY coalesce(f.check_slowest, f.check_total) DESC, f.ended_at DESC, f.shard, f.id LIMIT ?`), append(w.args, limit)...)
	if err != nil {
		return nil, wrapErr("slowest looks", err)
	}
	return slowest, nil
}
