package bench

import (
	"context"
	"fmt"
)

// bareInsert writes the columns that a new job has.
const bareInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	SELECT * FROM unnest($1::smallint[], $2::int[], $3::int[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::timestamptz[], $8::timestamptz[], $9::text[])
	ON CONFLICT (shard, rule_id, key) DO NOTHING`

func (g *postgresDB) insert(ctx context.Context, r *bareRows) error {
	_, err := g.pool.Exec(ctx, bareInsert, r.shard, r.rule, r.version, r.key, r.created, r.since, r.first, r.next, r.event)
	return err
}

// madeRows counts the jobs that are there for later, and the bytes of what they carry.
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
		return fmt.Errorf("%d jobs are there, want %d", there, jobs)
	}
	return nil
}

// vacuumAndCheckpoint asks for a checkpoint, and measures without where that may not be.
func (g *postgresDB) vacuumAndCheckpoint(ctx context.Context) error {
	err := g.run(ctx, `VACUUM (ANALYZE) future_job`)
	_, _ = g.pool.Exec(ctx, `CHECKPOINT`)
	return err
}

func (g *postgresDB) run(ctx context.Context, statements ...string) error {
	return execute(ctx, g.pool, statements...)
}
