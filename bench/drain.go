// Package bench measures what the engine costs on top of the database: it drains the same
// due jobs with the whole engine and with bare SQL that has none, in turn.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/store"
)

// Options say what to measure.
type Options struct {
	DatabaseURL string // an empty Postgres database; its tables are created, and emptied by each drain
	Jobs        int    // due jobs a drain
	Rounds      int    // times that each way is measured, in turn
	Out         io.Writer
}

// Document is the rule of the drained jobs: a condition over the body, one step, and then
// the job is over. Each job decodes its body, writes one history row and says one alert.
const Document = `
name: bench
entity: order
trigger: {event: bench.created, key: event.order_id}
while: event.status == "UNSHIPPED" && event.total >= 0
escalate:
  - {after: 1s, step: primary, severity: warning, text: "order {{key}} is not shipped"}
slot: 1s
labels: {team: fulfilment}
`

// drain is one way to finish all due jobs; it returns once the last one is recorded.
type drain struct {
	name string
	run  func(ctx context.Context) error
}

// Drain measures the rate at which due jobs are finished, by the engine and by the floor,
// and prints a RESULT line each, then the medians. It returns the engine's rate as a part of
// the floor's.
func Drain(ctx context.Context, o Options) (ratio float64, err error) {
	s, err := store.Open(ctx, store.Options{DatabaseURL: o.DatabaseURL, Shards: 16, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	pool, err := pgxpool.New(ctx, o.DatabaseURL)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if err := saveRule(ctx, s, Document); err != nil {
		return 0, err
	}

	ways := []drain{
		{"floor", func(ctx context.Context) error { return drainBare(ctx, pool) }},
		{"engine", func(ctx context.Context) error { return drainWithEngine(ctx, s, o.Jobs, nil) }},
	}
	rates := map[string][]float64{}
	for round := range o.Rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			took, wal, err := measure(ctx, pool, o.Jobs, way)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", way.name, err)
			}
			rate := float64(o.Jobs) / took.Seconds()
			rates[way.name] = append(rates[way.name], rate)
			fmt.Fprintf(o.Out, "RESULT drain %s n=%d sec=%.3f rate=%.0f walB/row=%d\n", way.name, o.Jobs, took.Seconds(), rate, wal/int64(o.Jobs))
		}
	}
	engine, floor := median(rates["engine"]), median(rates["floor"])
	fmt.Fprintf(o.Out, "drain of %d due jobs, median of %d rounds: engine %.0f/s, bare SQL %.0f/s, ratio %.2f\n",
		o.Jobs, o.Rounds, engine, floor, engine/floor)
	return engine / floor, nil
}

func median(rates []float64) float64 {
	sorted := slices.Sorted(slices.Values(rates))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// saveRule saves the one rule of a text; it listens to events from the start of their streams.
func saveRule(ctx context.Context, s *store.Store, text string, reads ...rules.Read) error {
	documents, err := rules.Parse([]byte(text), "bench.yaml")
	if err != nil {
		return err
	}
	document, err := json.Marshal(documents[0])
	if err != nil {
		return err
	}
	saved := rules.Saved{Name: documents[0].Name, Entity: documents[0].Entity, Document: document, Reads: reads}
	_, err = s.Save(ctx, saved, rules.AnyVersion)
	return err
}

// measure fills the table, drains it, and checks that each job was finished exactly once.
func measure(ctx context.Context, pool *pgxpool.Pool, jobs int, way drain) (took time.Duration, wal int64, err error) {
	if err := fill(ctx, pool, jobs); err != nil {
		return 0, 0, fmt.Errorf("fill: %w", err)
	}
	before, err := written(ctx, pool)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := way.run(ctx); err != nil {
		return 0, 0, err
	}
	took = time.Since(begun)
	after, err := written(ctx, pool)
	if err != nil {
		return 0, 0, err
	}
	var left, archived, said, unsent int
	err = pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM future_job), (SELECT count(*) FROM history),
		(SELECT count(*) FROM alert), (SELECT count(*) FROM alert_outbox)`).Scan(&left, &archived, &said, &unsent)
	if err != nil {
		return 0, 0, err
	}
	if left != 0 || archived != jobs || said != jobs || unsent != jobs {
		return 0, 0, fmt.Errorf("%d jobs left, %d archived, %d alerts, %d in the outbox; want 0 and %d each", left, archived, said, unsent, jobs)
	}
	return took, after - before, nil
}

// written is how many bytes of WAL the server has written since it was made.
func written(ctx context.Context, pool *pgxpool.Pool) (lsn int64, err error) {
	err = pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(&lsn)
	return lsn, err
}

// fill empties the tables and puts in jobs that are due since a minute. A checkpoint makes
// the runs alike.
func fill(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	return insert(ctx, pool, jobs, `date_trunc('minute', now()) - interval '1 minute'`)
}

// FillPending empties the tables and puts in jobs that are due in an hour.
func FillPending(ctx context.Context, pool *pgxpool.Pool, jobs int) error {
	return insert(ctx, pool, jobs, `date_trunc('minute', now()) + interval '1 hour'`)
}

// insert puts in jobs that are due at an instant, with bodies of about 200 bytes, spread
// over the shards.
func insert(ctx context.Context, pool *pgxpool.Pool, jobs int, due string) error {
	for _, statement := range []string{
		`TRUNCATE future_job, history, alert, alert_outbox`,
		fmt.Sprintf(`INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
			SELECT (hashint4(i) & 1023) %% 16, r.id, v.version, 'key-' || i, t, t, t, t,
				json_build_object('order_id', 'ord-' || i, 'status', 'UNSHIPPED', 'total', i %% 500, 'pad', repeat('x', 120))::text
			FROM generate_series(1, %d) i,
				(SELECT id FROM rule WHERE name = 'bench') r,
				LATERAL (SELECT max(version) AS version FROM rule_version WHERE rule_id = r.id) v,
				(SELECT %s AS t) x`, jobs, due),
		`VACUUM (ANALYZE) future_job`,
		`CHECKPOINT`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// drainWithEngine runs a node's sweep until so many jobs are settled. sources are what its rules
// look up in; nil: nothing.
func drainWithEngine(ctx context.Context, s *store.Store, jobs int, sources rules.Sources) error {
	log := slog.New(slog.DiscardHandler)
	book := rules.NewBook(s, s.Shards())
	book.Sources = sources
	if err := book.Refresh(ctx); err != nil {
		return err
	}
	clock := futurejobs.NewClock(s.Now, time.Now)
	owner := futurejobs.NewOwner(s, futurejobs.Node{ID: "bench", Name: "bench"}, 15*time.Second, time.Now, log)
	sweeper := futurejobs.NewSweeper(s, book, owner, clock, 64, log)
	tally := &tally{left: jobs, none: make(chan struct{})}
	sweeper.Observer = tally
	owner.Changed = sweeper.Wake

	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- owner.Run(working) }()
	go func() { ended <- sweeper.Run(working, ctx) }()
	select {
	case <-tally.none:
	case <-ctx.Done():
	}
	stop()
	return errors.Join(<-ended, <-ended, ctx.Err())
}

// tally counts the jobs that are left.
type tally struct {
	mu   sync.Mutex
	left int
	none chan struct{}
}

// Checked counts a job that was settled; what was dropped is checked again.
func (t *tally) Checked(_, outcome string, _ time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if outcome == "dropped" {
		return
	}
	if t.left--; t.left == 0 {
		close(t.none)
	}
}

// Alerted is of futurejobs.Observer.
func (t *tally) Alerted(alerts.Alert) {}
