package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/internal/bus"
	"deadman/internal/store"
)

// RelayOptions are the options of Relay.
type RelayOptions struct {
	DatabaseURL string // an empty Postgres database
	Dir         string // an empty folder for the broker, which syncs every write
	Alerts      int    // in the outbox
	Rounds      int    // number of measurements of each way, alternating
	Out         io.Writer
}

// relayRun has the database, the stream and the messages of both ways.
type relayRun struct {
	RelayOptions
	pool  *pgxpool.Pool
	store *store.Store
	bus   *bus.Bus
	nc    *nats.Conn
	js    jetstream.JetStream
	same  []*nats.Msg // messages published by the relay
}

// drain is one way to do all the work; run returns once the last of it is recorded.
type drain struct {
	name string
	run  func(ctx context.Context) error
}

// Relay measures the rate at which alerts are published from the outbox and marked, and the rate of a loop that only
// publishes the same messages in atomic batches. It prints a RESULT line for each, then the medians, and returns the
// ratio of the relay's rate to the other.
func Relay(ctx context.Context, o RelayOptions) (ratio float64, err error) {
	server, err := bus.StartServer(bus.ServerOptions{Dir: o.Dir, Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer server.Close()
	r := &relayRun{RelayOptions: o}
	defer r.close()
	if err := r.open(ctx, server.ClientURL()); err != nil {
		return 0, err
	}
	if err := r.record(ctx); err != nil {
		return 0, fmt.Errorf("record the published messages: %w", err)
	}
	ways := []drain{{"bare", func(ctx context.Context) error { return publish(ctx, r.nc, r.same) }}, {"relay", r.relay}}
	rates := map[string][]float64{}
	for round := range o.Rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			took, err := r.measure(ctx, way)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", way.name, err)
			}
			rate := float64(o.Alerts) / took.Seconds()
			rates[way.name] = append(rates[way.name], rate)
			fmt.Fprintf(o.Out, "RESULT relay %s n=%d sec=%.3f rate=%.0f bytes/alert=%d\n", way.name, o.Alerts, took.Seconds(), rate, r.same[0].Size())
		}
	}
	relay, bare := median(rates["relay"]), median(rates["bare"])
	fmt.Fprintf(o.Out, "relay of %d alerts, every write synced, median of %d rounds: relay %.0f/s, bare atomic batches %.0f/s, ratio %.2f\n",
		o.Alerts, o.Rounds, relay, bare, relay/bare)
	return relay / bare, nil
}

func (r *relayRun) open(ctx context.Context, url string) (err error) {
	log := slog.New(slog.DiscardHandler)
	if r.store, err = store.Open(ctx, store.Options{DatabaseURL: r.DatabaseURL, Shards: 16, Log: log}); err != nil {
		return err
	}
	if r.pool, err = pgxpool.New(ctx, r.DatabaseURL); err != nil {
		return err
	}
	if r.bus, err = bus.Connect(ctx, bus.Options{URL: url, Log: log}); err != nil {
		return err
	}
	if r.nc, err = nats.Connect(url); err != nil {
		return err
	}
	if r.js, err = jetstream.New(r.nc); err != nil {
		return err
	}
	if err := saveRule(ctx, r.store, Document); err != nil {
		return err
	}
	_, err = r.pool.Exec(ctx, fmt.Sprintf(`INSERT INTO alert (id, decided_at, since_at, rule_id, version, check_count, shard, status, severity, key, detail)
		SELECT gen_random_uuid(), now(), now(), r.id, 1, 1, i %% 16, 1, 2, 'key-' || i,
			'{"step":"primary","text":"order key-' || i || ' is not shipped","labels":{"team":"fulfilment"},"event":' ||
			json_build_object('order_id', 'ord-' || i, 'status', 'UNSHIPPED', 'total', i %% 500, 'pad', repeat('x', 120)) || '}'
		FROM generate_series(1, %d) i, (SELECT id FROM rule WHERE name = 'bench') r`, r.Alerts))
	return err
}

func (r *relayRun) close() {
	if r.nc != nil {
		r.nc.Close()
	}
	if r.bus != nil {
		r.bus.Close()
	}
	if r.pool != nil {
		r.pool.Close()
	}
	if r.store != nil {
		_ = r.store.Close() // the measurement is complete
	}
}

// reset fills the outbox with all alerts, and empties the stream together with its duplicate window. A checkpoint makes
// the runs alike.
func (r *relayRun) reset(ctx context.Context) error {
	for _, statement := range []string{
		`TRUNCATE alert_outbox`,
		`INSERT INTO alert_outbox (shard, at, first_id, ids)
		SELECT shard, clock_timestamp(), encode(substr(ids, b, 16), 'hex')::uuid, substr(ids, b, 1920)
		FROM (SELECT shard, string_agg(uuid_send(id), '' ORDER BY id) AS ids FROM alert GROUP BY shard) s,
			generate_series(1, length(ids), 1920) b`,
		`VACUUM (ANALYZE) alert, alert_outbox`, `CHECKPOINT`,
	} {
		if _, err := r.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := r.js.DeleteStream(ctx, bus.AlertsStream); err != nil {
		return err
	}
	return r.bus.AlertsStream.Inspect(ctx)
}

// measure runs one way and checks that each alert is in the stream once.
func (r *relayRun) measure(ctx context.Context, way drain) (time.Duration, error) {
	if err := r.reset(ctx); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := way.run(ctx); err != nil {
		return 0, err
	}
	took := time.Since(begun)
	s, err := r.js.Stream(ctx, bus.AlertsStream)
	if err != nil {
		return 0, err
	}
	if n := s.CachedInfo().State.Msgs; n != uint64(r.Alerts) {
		return 0, fmt.Errorf("%d alerts in the stream, want %d", n, r.Alerts)
	}
	return took, nil
}

// relay runs a relay until all alerts are marked.
func (r *relayRun) relay(ctx context.Context) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	marked := &markCounter{Outbox: r.store, all: stop}
	marked.left.Store(int64(r.Alerts))
	shards := make([]int16, 16)
	for i := range shards {
		shards[i] = int16(i)
	}
	if err := alerts.NewRelay(marked, r.bus.AlertPublisher, func() []int16 { return shards }, slog.New(slog.DiscardHandler)).Run(working); err != nil {
		return err
	}
	return ctx.Err()
}

// markCounter calls all after the last alert is marked.
type markCounter struct {
	alerts.Outbox
	left atomic.Int64
	all  func()
}

// MarkPublished implements alerts.Outbox.
func (m *markCounter) MarkPublished(ctx context.Context, sent []alerts.Alert) error {
	err := m.Outbox.MarkPublished(ctx, sent)
	if err == nil && m.left.Add(-int64(len(sent))) == 0 {
		m.all()
	}
	return err
}

// record runs the relay once and keeps its messages.
func (r *relayRun) record(ctx context.Context) error {
	if _, err := r.measure(ctx, drain{"relay", r.relay}); err != nil {
		return err
	}
	consumer, err := r.js.OrderedConsumer(ctx, bus.AlertsStream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for len(r.same) < r.Alerts {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		header := msg.Headers()
		for _, name := range []string{batchID, batchSequence, batchCommit} {
			header.Del(name)
		}
		r.same = append(r.same, &nats.Msg{Subject: msg.Subject(), Header: header, Data: msg.Data()})
	}
	return nil
}
