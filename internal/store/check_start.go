package store

import (
	"context"
	"database/sql"
	"time"

	futurejobs "deadman/future_jobs"
)

// BeginCheck implements futurejobs.CheckStarts.
func (s *Store) BeginCheck(ctx context.Context, b futurejobs.CheckStart) (ok bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if err := heldBy(ctx, tx, []futurejobs.HeldShard{b.HeldShard}, now); err != nil {
			return err
		}
		n, err := exec(ctx, tx, `
INSERT INTO check_start (shard, job_id, checks, epoch, started_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (shard, job_id) DO UPDATE SET checks = excluded.checks, epoch = excluded.epoch, started_at = excluded.started_at
WHERE check_start.checks < excluded.checks`, b.Shard, b.JobID, b.Checks, b.Epoch, now)
		ok = n == 1
		return err
	})
	if err != nil {
		return false, wrapErr("begin a check", err)
	}
	return ok, nil
}

// forgetBeginnings deletes the check starts of jobs that have ended.
func (s *Store) forgetBeginnings(ctx context.Context) error {
	for shard := range s.shards {
		if _, err := s.pruneAll(ctx, "", `DELETE FROM check_start WHERE shard = $1 AND job_id IN
	(SELECT c.job_id FROM check_start c WHERE c.shard = $1
		AND NOT EXISTS (SELECT 1 FROM future_job f WHERE f.shard = c.shard AND f.id = c.job_id) LIMIT $2)`, shard, pruneBatch); err != nil {
			return err
		}
	}
	return nil
}
