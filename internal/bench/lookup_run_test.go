package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"deadman/checks/lookup"
	"deadman/internal/sources"
	"deadman/rules"
)

// LookupOptions are the options of Lookup.
type LookupOptions struct {
	DatabaseURL string // Postgres
	Jobs        int    // due jobs per round
	Rounds      int    // number of measurements of each way, alternating
	Orders      int    // rows of the looked-up table
	Out         io.Writer
}

// LookupDocument is Document with its condition over the result of a database query for each order.
const LookupDocument = `
name: bench
entity: order
trigger: {event: bench.created, key: event.order_id}
lookup: {sql: {source: shop, query: "select status from orders where id = $1"}}
while: state.status == "UNSHIPPED" && event.total >= 0
escalate:
  - {after: 1s, step: primary, severity: warning, text: "order {{key}} is not shipped"}
slot: 1s
labels: {team: fulfilment}
`

// Lookup measures the rate of finished jobs with a lookup of each job in a table of the same Postgres, and without. It
// prints a RESULT line for each, then the medians, and returns the ratio of the rates and the number of batches of a
// drain.
func Lookup(ctx context.Context, o LookupOptions) (ratio float64, batches int64, err error) {
	g, err := openPostgres(ctx, o.DatabaseURL)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, g.close(context.WithoutCancel(ctx))) }()
	if err := saveRules(ctx, g); err != nil {
		return 0, 0, err
	}
	pool, err := pgxpool.New(ctx, o.DatabaseURL)
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	if err := FillOrders(ctx, pool, o.Orders); err != nil {
		return 0, 0, fmt.Errorf("fill the table of orders: %w", err)
	}
	shop := &orderSource{}
	if err := shop.open(o.DatabaseURL); err != nil {
		return 0, 0, err
	}
	defer shop.source.Client.Close()
	ways := []drainRun{lookupRun(g, "bare", Document, o.Jobs, nil), lookupRun(g, "lookup", LookupDocument, o.Jobs, shop)}
	rates := map[string][]float64{}
	for round := range o.Rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			shop.batches.Store(0)
			r, err := way.measure(ctx)
			if err != nil {
				return 0, 0, fmt.Errorf("%s: %w", way.name, err)
			}
			batches = max(batches, shop.batches.Load())
			rates[way.name] = append(rates[way.name], r.Rate())
			fmt.Fprintf(o.Out, "%v batches=%d\n", r, shop.batches.Load())
		}
	}
	withLookup, bare := median(rates["lookup"]), median(rates["bare"])
	fmt.Fprintf(o.Out, "drain of %d due jobs, each looked up among %d orders, median of %d rounds: with %.0f/s in %d batches, without %.0f/s, ratio %.2f\n",
		o.Jobs, o.Orders, o.Rounds, withLookup, batches, bare, withLookup/bare)
	return withLookup / bare, batches, nil
}

// lookupRun is a node that drains the jobs of a rule.
func lookupRun(g database, name, document string, jobs int, sources rules.Sources) drainRun {
	return drainRun{name: name, ground: g, shape: Finish, jobs: jobs, ready: func(ctx context.Context) (do, rest func(context.Context) error, over func() error, err error) {
		s, err := g.store(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		if err := errors.Join(saveRule(ctx, s, document), s.Close()); err != nil {
			return nil, nil, nil, err
		}
		c, err := startNodes(ctx, g.store, 1, sources)
		if err != nil {
			return nil, nil, nil, err
		}
		return func(ctx context.Context) error { return c.drain(ctx, jobs) }, c.rest, c.stop, nil
	}}
}

// FillOrders creates the table of orders with a row for each job.
func FillOrders(ctx context.Context, pool *pgxpool.Pool, orders int) error {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, status text NOT NULL, body text NOT NULL)`,
		fmt.Sprintf(`INSERT INTO orders SELECT 'key-' || i, 'UNSHIPPED', repeat('x', 200) FROM generate_series(1, %d) i ON CONFLICT DO NOTHING`, orders),
		`VACUUM (ANALYZE) orders`,
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// orderSource is the only source.
type orderSource struct {
	source  *lookup.Source
	batches atomic.Int64
}

var (
	_ rules.Sources   = (*orderSource)(nil)
	_ lookup.Observer = (*orderSource)(nil)
)

// open opens the source.
func (s *orderSource) open(databaseURL string) error {
	client, err := sources.Open(sources.Spec{Name: "shop", Postgres: &sources.Postgres{URL: databaseURL}}, nil)
	if err != nil {
		return err
	}
	s.source = lookup.NewSource(lookup.Options{Name: "shop", Kind: "postgres", Client: client, Now: time.Now, Observer: s, Log: slog.New(slog.DiscardHandler)})
	return nil
}

func (s *orderSource) Source(string) (rules.Source, bool)    { return s.source, true }
func (s *orderSource) Names() []string                       { return []string{"shop"} }
func (s *orderSource) CountKeys(string, lookup.Outcome, int) {}
func (s *orderSource) RoundTrip(string, time.Duration)       { s.batches.Add(1) }
