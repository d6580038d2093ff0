package bench

import (
	"context"
	"fmt"
)

// bareInsert writes the columns of a new job.
const bareInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	SELECT * FROM unnest($1::smallint[], $2::int[], $3::int[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::timestamptz[], $8::timestamptz[], $9::text[])
	ON CONFLICT (shard, rule_id, key) DO NOTHING`

func (g *postgresDB) insert(ctx context.Context, r *bareRows) error {
	_, err := g.pool.Exec(ctx, bareInsert, r.shard, r.rule, r.version, r.key, r.created, r.since, r.first, r.next, r.event)
	return err
}

// madeRows counts the jobs due later and the bytes of their bodies.
const madeRows = `SELECT count(*), coalesce(sum(length(key) + length(event)), 0) FROM future_job WHERE `

func (g *postgresDB) made(ctx context.Context, jobs int) (bytes int64, err error) {
	var there int
	if err := g.pool.QueryRow(ctx, madeRows+g.ofRounds()+` AND next_check_at > now()`).Scan(&there, &bytes); err != nil {
		return 0, err
	}
	return bytes, wasMade(there, jobs)
}

func wasMade(there, jobs int) error {
	if there != jobs {
		return fmt.Errorf("%d jobs exist, want %d", there, jobs)
	}
	return nil
}

// vacuumAndCheckpoint requests a checkpoint; without the permission it measures without one.
func (g *postgresDB) vacuumAndCheckpoint(ctx context.Context) error {
	err := g.run(ctx, `VACUUM (ANALYZE) future_job`)
	_, _ = g.pool.Exec(ctx, `CHECKPOINT`)
	return err
}

func (g *postgresDB) run(ctx context.Context, statements ...string) error {
	return execute(ctx, g.pool, statements...)
}
