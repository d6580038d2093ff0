package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// HangingOptions are the options of Hanging.
type HangingOptions struct {
	DatabaseURL string // of a node with HangingDocuments and HangingSources; the shop has an order for each job
	NATSURL     string
	Jobs        int // due jobs of each rule per slot
	Slots       int // one per second
	Rounds      int // number of measurements of each way, alternating
	Out         io.Writer
}

// HangingDocuments are three rules: one with a source that answers, one with a source that hangs, and one with a
// handler that hangs.
const HangingDocuments = `
name: good
entity: order
trigger: {event: bench.created, key: event.order_id}
lookup: {sql: {source: shop, query: "select status from orders where id = $1"}}
while: state.status == "UNSHIPPED"
escalate: [{after: 1s, step: primary, severity: warning, text: "order {{key}} is not shipped"}]
slot: 1s
---
name: source
entity: order
trigger: {event: bench.created, key: event.order_id}
lookup: {sql: {source: hanging, query: "select status from orders where id = $1"}}
while: state.status == "UNSHIPPED"
escalate: [{after: 1h, step: primary, severity: warning, text: "order {{key}} is not shipped"}]
slot: 1s
---
name: handler
entity: order
trigger: {event: bench.created, key: event.order_id}
handler: hanging
slot: 1s
`

// HangingSources is the sources file of those rules. The URL of the database is in shop.url, and the URL of a listener
// that accepts connections and never answers in hanging.url.
const HangingSources = `
sources:
  shop: {postgres: {url_file: shop.url}}
  hanging: {postgres: {url_file: hanging.url}}
`

// Delay is the time from a slot until its alert is in the stream.
type Delay struct{ P50, P99 time.Duration }

// slowSourceRun is a node's database and broker.
type slowSourceRun struct {
	HangingOptions
	pool *pgxpool.Pool
	nc   *nats.Conn
	js   jetstream.JetStream
}

// Hanging measures the delay of alerts of a rule with a source that answers: alone, beside as many jobs with a source
// that hangs, and beside as many with a handler that hangs. It prints a RESULT line for each, and returns the worst of
// each way.
func Hanging(ctx context.Context, o HangingOptions) (map[string]Delay, error) {
	h := slowSourceRun{HangingOptions: o}
	var err error
	if h.pool, err = pgxpool.New(ctx, o.DatabaseURL); err != nil {
		return nil, err
	}
	defer h.pool.Close()
	if h.nc, err = nats.Connect(o.NATSURL); err != nil {
		return nil, err
	}
	defer h.nc.Close()
	if h.js, err = jetstream.New(h.nc); err != nil {
		return nil, err
	}
	if _, err := h.nc.Subscribe("deadman.handlers.hanging", func(*nats.Msg) {}); err != nil { // never answers
		return nil, err
	}
	worst := map[string]Delay{}
	ways := []string{"alone", "source", "handler"}
	for round := range o.Rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			d, err := h.measure(ctx, way)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", way, err)
			}
			fmt.Fprintf(o.Out, "RESULT hanging %s n=%d slots=%d p50ms=%d p99ms=%d\n", way, o.Jobs, o.Slots, d.P50.Milliseconds(), d.P99.Milliseconds())
			worst[way] = Delay{max(d.P50, worst[way].P50), max(d.P99, worst[way].P99)}
		}
	}
	fmt.Fprintf(o.Out, "slot to alert with %d jobs a second of a good rule, worst of %d rounds, p50/p99: alone %v, beside a hanging source %v, beside a hanging handler %v\n",
		o.Jobs, o.Rounds, worst["alone"], worst["source"], worst["handler"])
	return worst, nil
}

func (d Delay) String() string {
	return fmt.Sprintf("%s/%s", d.P50.Round(time.Millisecond), d.P99.Round(time.Millisecond))
}

// lead is the time from inserting jobs to their first slot.
const lead = 3 * time.Second

// measure inserts due jobs of the good rule and as many of the rule beside.
func (h slowSourceRun) measure(ctx context.Context, beside string) (Delay, error) {
	ctx, cancel := context.WithTimeout(ctx, lead+time.Duration(h.Slots)*time.Second+time.Minute)
	defer cancel()
	if _, err := h.pool.Exec(ctx, `TRUNCATE future_job, history, alert, alert_outbox`); err != nil {
		return Delay{}, err
	}
	received, stop, err := listenToRule(ctx, h.js, "good", time.Now)
	if err != nil {
		return Delay{}, err
	}
	defer stop()
	if _, err := h.pool.Exec(ctx, `
		INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
		SELECT (hashint4(i) & 1023) % 16, r.id, v.version, 'key-' || i, t, t - interval '1 s', t, t, '{"order_id": "ord-' || i || '"}'
		FROM generate_series(1, $2::int) i, rule r,
			LATERAL (SELECT max(version) AS version FROM rule_version WHERE rule_id = r.id) v,
			LATERAL (SELECT date_trunc('second', now()) + $4::interval + i % $3::int * interval '1 s' AS t) x
		WHERE r.name = ANY($1)`, []string{"good", beside}, h.Jobs*h.Slots, h.Slots, lead); err != nil {
		return Delay{}, err
	}
	delays, err := received(ctx, h.Jobs*h.Slots)
	if err != nil {
		return Delay{}, err
	}
	slices.Sort(delays)
	return Delay{delays[len(delays)/2], delays[len(delays)*99/100]}, nil
}
