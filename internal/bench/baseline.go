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
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/sync/errgroup"
)

// The floor is the baseline: it settles due jobs as the engine does, with one reader per shard, batches of 2,000 and
// three writers, the same columns and bytes, and a decoded body and an evaluated condition for each job, but without
// the engine: no leases, epochs, guards, rules or decisions.
const (
	floorBatch   = 2000
	floorWriters = 3
)

const (
	floorRead = `SELECT id, key, next_check_at, event, rule_id = (SELECT id FROM rule WHERE name = 'bench') FROM future_job
	WHERE shard = $1 AND next_check_at <= now() AND (next_check_at, id) > ($2, $3)
	ORDER BY shard, next_check_at, id LIMIT $4`

	floorEnd = `WITH u AS (
		SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::text[], $5::timestamptz[]) u(shard, id, alert_id, detail, at)),
	d AS (
		DELETE FROM future_job f USING u WHERE f.shard = u.shard AND f.id = u.id AND f.rev = 0
		RETURNING f.*, u.alert_id, u.detail, u.at),
	h AS (
		INSERT INTO history (id, ended_at, created_at, since_at, first_check_at, next_check_at, picked_at, started_at, completed_at,
			check_total, rule_id, version, check_count, step, checks, shard, key, outcome, alert_ids)
		SELECT id, now(), created_at, since_at, first_check_at, next_check_at, at, at, at,
			1, rule_id, version, 1, 1, 1, shard, key, 'exhausted', uuid_send(alert_id) FROM d),
	a AS (
		INSERT INTO alert (id, decided_at, since_at, rule_id, version, check_count, shard, status, severity, key, detail)
		SELECT alert_id, at, since_at, rule_id, version, 1, shard, 1, 2, key, detail FROM d),
	o AS (
		INSERT INTO alert_outbox (shard, at, first_id, ids)
		SELECT shard, clock_timestamp(), encode(substr(ids, b, 16), 'hex')::uuid, substr(ids, b, 1920)
		FROM (SELECT shard, string_agg(uuid_send(alert_id), '' ORDER BY alert_id) AS ids FROM d GROUP BY shard) s,
			generate_series(1, length(ids), 1920) b)
	SELECT count(*) FROM d`

	floorMove = `UPDATE future_job f SET rev = f.rev + 1, next_check_at = u.at + interval '1 hour', check_count = f.check_count + 1,
		picked_at = u.at, started_at = u.at, completed_at = u.at, checks = f.checks + 1, check_total = 1, check_slowest = 1, trail = u.trail
	FROM unnest($1::smallint[], $2::bigint[], $3::text[], $4::timestamptz[]) u(shard, id, trail, at)
	WHERE f.shard = u.shard AND f.id = u.id AND f.rev = 0`
)

// baselineRows are the columns of one write.
type baselineRows struct {
	end  floorEnds
	move floorMoves
}

// floorEnds are ended jobs with their alerts.
type floorEnds struct {
	shards  []int16
	ids     []int64
	alerts  pgtype.FlatArray[[16]byte]
	details []string
	at      []time.Time
}

// floorMoves are rescheduled jobs.
type floorMoves struct {
	shards []int16
	ids    []int64
	trails []string
	at     []time.Time
}

func (r *baselineRows) len() int { return len(r.end.ids) + len(r.move.ids) }

// bare settles with plain SQL.
func (g *postgresDB) bare(ctx context.Context, _ Shape) error {
	condition, err := compiled()
	if err != nil {
		return err
	}
	rows := make(chan baselineRows, floorWriters)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(rows)
		return g.walk(ctx, condition, rows)
	})
	for range floorWriters {
		group.Go(func() error {
			for r := range rows {
				if err := g.write(ctx, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func compiled() (*vm.Program, error) {
	return expr.Compile(`event.status == "UNSHIPPED" && event.total >= 0`, expr.AsBool())
}

// write writes a batch in one transaction and one round trip.
func (g *postgresDB) write(ctx context.Context, r baselineRows) error {
	batch := &pgx.Batch{}
	if e := r.end; len(e.ids) > 0 {
		batch.Queue(floorEnd, e.shards, e.ids, e.alerts, e.details, e.at)
	}
	if m := r.move; len(m.ids) > 0 {
		batch.Queue(floorMove, m.shards, m.ids, m.trails, m.at)
	}
	return g.pool.SendBatch(ctx, batch).Close()
}

// walk reads each shard to its end.
func (g *postgresDB) walk(ctx context.Context, condition *vm.Program, out chan<- baselineRows) error {
	var batch baselineRows
	var machine vm.VM
	for shard := range int16(shards) {
		at, id := time.Unix(0, 0), int64(0)
		for more := true; more; {
			limit := floorBatch - batch.len()
			rows, err := g.pool.Query(ctx, floorRead, shard, at, id, limit)
			if err != nil {
				return err
			}
			read := 0
			for ; rows.Next(); read++ {
				var j floorJob
				if err := rows.Scan(&j.id, &j.key, &j.at, &j.body, &j.ends); err != nil {
					rows.Close()
					return err
				}
				j.shard, at, id = shard, j.at, j.id
				if err := batch.check(j, condition, &machine); err != nil {
					rows.Close()
					return err
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
			more = read == limit
			if batch.len() == floorBatch {
				select {
				case out <- batch:
				case <-ctx.Done():
					return ctx.Err()
				}
				batch = baselineRows{}
			}
		}
	}
	if batch.len() > 0 {
		out <- batch
	}
	return nil
}

// floorJob has the columns that the floor reads of a job.
type floorJob struct {
	shard int16
	id    int64
	key   string
	at    time.Time
	body  []byte
	ends  bool
}

// check evaluates the condition over a job's body and adds the resulting row.
func (r *baselineRows) check(j floorJob, condition *vm.Program, machine *vm.VM) error {
	var event map[string]any
	if err := json.Unmarshal(j.body, &event); err != nil {
		return err
	}
	holds, err := machine.Run(condition, map[string]any{"event": event})
	if err != nil || holds != true {
		return fmt.Errorf("condition: %v, %w", holds, err)
	}
	now := time.Now()
	if !j.ends {
		m := &r.move
		m.shards, m.ids, m.at = append(m.shards, j.shard), append(m.ids, j.id), append(m.at, now)
		m.trails = append(m.trails, j.trail(now, event["total"]))
		return nil
	}
	e := &r.end
	e.shards, e.ids, e.at = append(e.shards, j.shard), append(e.ids, j.id), append(e.at, now)
	e.alerts = append(e.alerts, uuid.Must(uuid.NewV7()))
	e.details = append(e.details, j.detail())
	return nil
}

// detail returns the document of the job's alert.
func (j floorJob) detail() string {
	return `{"step":"primary","text":"order ` + j.key + ` is not shipped","labels":{"team":"fulfilment"},"event":` + string(j.body) + `}`
}

// trail returns the trail of a rescheduled job.
func (j floorJob) trail(now time.Time, total any) string {
	return fmt.Sprintf(`{"at":%d,"late":%d,"saw":"event.status = \"UNSHIPPED\", event.total = %v","next":%d}`,
		j.at.UnixMilli(), now.Sub(j.at).Milliseconds(), total, j.at.Add(time.Hour).UnixMilli())
}
