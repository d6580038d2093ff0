package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// bareInsert writes the columns that a new job has, and bareRead reads them, in the order in which they were
// written.
const (
	bareInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	SELECT * FROM unnest($1::smallint[], $2::int[], $3::int[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::timestamptz[], $8::timestamptz[], $9::text[])
	ON CONFLICT (shard, rule_id, key) DO NOTHING`
	bareRead = `SELECT shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event FROM future_job`
)

// bareRows are rows as the arrays of bareInsert.
type bareRows struct {
	shard                       []int16
	rule, version               []int32
	key                         []string
	created, since, first, next []time.Time
	event                       []string
}

func (r *bareRows) args() []any {
	return []any{r.shard, r.rule, r.version, r.key, r.created, r.since, r.first, r.next, r.event}
}

func (r *bareRows) read(rows pgx.Rows) error {
	var shard int16
	var rule, version int32
	var key, event string
	var created, since, first, next time.Time
	if err := rows.Scan(&shard, &rule, &version, &key, &created, &since, &first, &next, &event); err != nil {
		return err
	}
	r.shard, r.rule, r.version, r.key = append(r.shard, shard), append(r.rule, rule), append(r.version, version), append(r.key, key)
	r.created, r.since, r.first, r.next = append(r.created, created), append(r.since, since), append(r.first, first), append(r.next, next)
	r.event = append(r.event, event)
	return nil
}

func (g *postgresGround) again(ctx context.Context) (func(ctx context.Context, writers int) error, error) {
	rows, err := g.pool.Query(ctx, bareRead+` WHERE `+g.ofRounds()+` ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var batches []*bareRows
	for rows.Next() {
		last := len(batches) - 1
		if last < 0 || len(batches[last].shard) == bareBatch {
			batches = append(batches, new(bareRows))
			last++
		}
		if err := batches[last].read(rows); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, writers int) error { return g.insertAll(ctx, batches, writers) }, rows.Err()
}

// insertAll inserts batches over so many connections.
func (g *postgresGround) insertAll(ctx context.Context, batches []*bareRows, writers int) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			for i := w; i < len(batches); i += writers {
				if _, err := g.pool.Exec(ctx, bareInsert, batches[i].args()...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// madeRows counts the jobs that are there for later, and the bytes of what they carry.
const madeRows = `SELECT count(*), coalesce(sum(length(key) + length(event)), 0) FROM future_job WHERE `

func (g *postgresGround) made(ctx context.Context, jobs int) (bytes int64, err error) {
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

// calm asks for a checkpoint, and measures without where that may not be.
func (g *postgresGround) calm(ctx context.Context) error {
	err := g.run(ctx, `VACUUM (ANALYZE) future_job`)
	_, _ = g.pool.Exec(ctx, `CHECKPOINT`)
	return err
}

func (g *postgresGround) run(ctx context.Context, statements ...string) error {
	return execute(ctx, g.pool, statements...)
}
