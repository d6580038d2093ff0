package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// The floor finishes due jobs as the engine does, one reader walking each shard, batches of
// 2,000 and two writers, the same columns and bytes, a decoded body and a condition for
// each job, but with no engine: no leases, fences, guards, rules or decisions.
const (
	floorBatch   = 2000
	floorWriters = 2
)

const floorRead = `SELECT id, rule_id, version, key, next_check_at, event FROM future_job
	WHERE shard = $1 AND next_check_at <= now() AND (next_check_at, id) > ($2, $3)
	ORDER BY shard, next_check_at, id LIMIT $4`

const floorWrite = `WITH u AS (
		SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::text[], $5::timestamptz[]) u(shard, id, alert_id, detail, at)),
	d AS (
		DELETE FROM future_job f USING u WHERE f.shard = u.shard AND f.id = u.id AND f.rev = 0
		RETURNING f.*, u.alert_id, u.detail, u.at),
	h AS (
		INSERT INTO history (id, ended_at, created_at, since_at, first_check_at, next_check_at, picked_at, started_at, completed_at,
			check_total, check_slowest, rule_id, version, check_count, step, checks, shard, key, outcome, alert_ids)
		SELECT id, now(), created_at, since_at, first_check_at, next_check_at, at, at, at,
			1, 1, rule_id, version, 1, 1, 1, shard, key, 'exhausted', uuid_send(alert_id) FROM d),
	a AS (
		INSERT INTO alert (id, decided_at, rule_id, version, shard, key, detail)
		SELECT alert_id, at, rule_id, version, shard, key, detail FROM d),
	o AS (
		INSERT INTO alert_outbox (shard, id) SELECT shard, alert_id FROM d)
	SELECT count(*) FROM d`

// floorRows are the columns of one write.
type floorRows struct {
	shards  []int16
	ids     []int64
	alerts  []uuid.UUID
	details []string
	at      []time.Time
}

// drainBare drains with bare SQL.
func drainBare(ctx context.Context, pool *pgxpool.Pool) error {
	condition, err := expr.Compile(`event.status == "UNSHIPPED" && event.total >= 0`, expr.AsBool())
	if err != nil {
		return err
	}
	rows := make(chan floorRows, floorWriters)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(rows)
		return floorWalk(ctx, pool, condition, rows)
	})
	for range floorWriters {
		group.Go(func() error {
			for r := range rows {
				if _, err := pool.Exec(ctx, floorWrite, r.shards, r.ids, r.alerts, r.details, r.at); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// floorWalk reads each shard to its end.
func floorWalk(ctx context.Context, pool *pgxpool.Pool, condition *vm.Program, out chan<- floorRows) error {
	var batch floorRows
	var machine vm.VM
	for shard := range int16(16) {
		at, id := time.Unix(0, 0), int64(0)
		for more := true; more; {
			limit := floorBatch - len(batch.ids)
			rows, err := pool.Query(ctx, floorRead, shard, at, id, limit)
			if err != nil {
				return err
			}
			read := 0
			for ; rows.Next(); read++ {
				if at, id, err = batch.look(rows, shard, condition, &machine); err != nil {
					rows.Close()
					return err
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
			more = read == limit
			if len(batch.ids) == floorBatch {
				out <- batch
				batch = floorRows{}
			}
		}
	}
	if len(batch.ids) > 0 {
		out <- batch
	}
	return nil
}

// look reads one job, evaluates the condition over its body, and writes its alert.
func (b *floorRows) look(rows pgx.Rows, shard int16, condition *vm.Program, machine *vm.VM) (at time.Time, id int64, err error) {
	var rule, version int32
	var key string
	var body []byte
	if err := rows.Scan(&id, &rule, &version, &key, &at, &body); err != nil {
		return at, id, err
	}
	var event map[string]any
	if err := json.Unmarshal(body, &event); err != nil {
		return at, id, err
	}
	holds, err := machine.Run(condition, map[string]any{"event": event})
	if err != nil || holds != true {
		return at, id, fmt.Errorf("condition: %v, %w", holds, err)
	}
	slot := at.UTC().Format(time.RFC3339)
	b.shards = append(b.shards, shard)
	b.ids = append(b.ids, id)
	b.alerts = append(b.alerts, uuid.Must(uuid.NewV7()))
	b.details = append(b.details, `{"status":"firing","severity":"warning","step":"primary","step_index":0,"text":"order `+key+
		` is not shipped","labels":{"team":"fulfilment"},"since":"`+slot+`","slot":"`+slot+`","check_count":1,"event":`+string(body)+`}`)
	b.at = append(b.at, time.Now())
	return at, id, nil
}
