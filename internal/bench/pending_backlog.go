package bench

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ScatteredAt is the minimum number of pending jobs for each due job if due jobs are scattered among them: a page has
// fewer than 25 jobs, and not all holes are filled.
const ScatteredAt = 40

const (
	backlogChunk   = 100_000 // jobs per statement
	backlogWriters = 2       // concurrent statements
)

// laterKey keeps the keys of pending jobs among those of the rounds, so that an index is written in the same places as
// if all jobs were of one kind.
const laterKey = `'key-' || i || '-later'`

// index has the statements that recreate an index.
type index struct {
	make       string
	constraint string // of the index; empty: none
}

// FillPending empties the tables and inserts jobs that are due in an hour.
func FillPending(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	if err := execute(ctx, pool, `TRUNCATE future_job, history, alert, alert_outbox`); err != nil {
		return err
	}
	if err := insert(ctx, pool, jobs, jobs, `date_trunc('minute', now()) + interval '1 hour'`); err != nil {
		return err
	}
	return execute(ctx, pool, `VACUUM (ANALYZE) future_job`)
}

// insert inserts jobs that are due at an instant, with bodies of about 200 bytes, spread over the shards. The jobs that
// end are evenly distributed among the others.
func insert(ctx context.Context, pool *pgxpool.Pool, jobs, ends int, due string) error {
	_, err := pool.Exec(ctx, fmt.Sprintf(`INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
		SELECT (hashint4(i) & 1023) %% %d, r.id, v.version, 'key-' || i, t, t, t, t,
			json_build_object('order_id', 'ord-' || i, 'status', 'UNSHIPPED', 'total', i %% 500, 'pad', repeat('x', 120))::text
		FROM generate_series(1, %[2]d) i
		JOIN rule r ON r.name = CASE WHEN i::bigint * %[3]d / %[2]d > (i::bigint - 1) * %[3]d / %[2]d THEN 'bench' ELSE 'bench-later' END,
			LATERAL (SELECT max(version) AS version FROM rule_version WHERE rule_id = r.id) v,
			(SELECT %[4]s AS t) x
		ORDER BY i`, shards, jobs, ends, due))
	return err
}
