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
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	"deadman/bus"
	"deadman/events"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/store"
)

// EventsOptions say what to measure.
type EventsOptions struct {
	DatabaseURL string // an empty Postgres database
	Dir         string // an empty folder for the broker, and for SQLite
	Events      int    // in the stream, each of which creates a job
	Rounds      int    // times that each way is measured, in turn
	Embedded    bool   // the same intake on SQLite is measured, too
	Out         io.Writer
}

// EventsDocument is the rule of the events: a key and a condition over the body, and what
// ends the wait.
const EventsDocument = `
name: bench
entity: order
trigger: {event: orders.placed, key: event.id, if: 'event.total > 0 && event.status == "PLACED"'}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 3h, step: primary, severity: warning, text: "order {{key}} is not shipped"}
slot: 15m
`

// eventBody is what each event carries, about 300 bytes; its argument is a number.
const eventBody = `{"id":"ord-%08[1]d","status":"PLACED","total":129.9,"currency":"EUR","placed_at":"2026-01-02T03:04:05Z",` +
	`"customer":{"id":"cus-%08[1]d","name":"Ada Lovelace","city":"London"},` +
	`"items":[{"sku":"A-1042","count":2,"price":49.95},{"sku":"B-7","count":1,"price":30}],"note":"leave it with the neighbours, please"}`

const (
	eventsStream  = "ORDERS"
	eventsSubject = "orders.placed"
)

// eventing is a stream full of events, and where they become jobs.
type eventing struct {
	EventsOptions
	pool  *pgxpool.Pool
	store *store.Store
	bus   *bus.Bus
	nc    *nats.Conn
	same  [][]any // what intake wrote, a batch each
	dirs  int     // folders of SQLite that were made
}

// Events measures the rate at which the events of a stream become committed jobs, and the
// rate at which the same rows are inserted by a loop that does nothing else. It prints a
// RESULT line for each, then the medians, and returns intake's rate as a part of the other.
func Events(ctx context.Context, o EventsOptions) (ratio float64, err error) {
	server, err := bus.StartServer(bus.ServerOptions{Dir: o.Dir + "/nats", Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer server.Close()
	e := &eventing{EventsOptions: o}
	defer e.close()
	if err := e.open(ctx, server.ClientURL()); err != nil {
		return 0, err
	}
	if err := e.record(ctx); err != nil {
		return 0, fmt.Errorf("record what is inserted: %w", err)
	}
	ways := []drain{{"bare", e.insert}, {"intake", func(ctx context.Context) error { return e.takeIn(ctx, e.store) }}}
	if o.Embedded {
		ways = append(ways, drain{"sqlite", e.takeInAlone})
	}
	rates := map[string][]float64{}
	for round := range o.Rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			took, wal, err := e.measure(ctx, way)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", way.name, err)
			}
			rate := float64(o.Events) / took.Seconds()
			rates[way.name] = append(rates[way.name], rate)
			fmt.Fprintf(o.Out, "RESULT events %s n=%d sec=%.3f rate=%.0f walB/row=%d\n", way.name, o.Events, took.Seconds(), rate, wal/int64(o.Events))
		}
	}
	intake, bare := median(rates["intake"]), median(rates["bare"])
	fmt.Fprintf(o.Out, "intake of %d events of %d bytes, median of %d rounds: intake %.0f/s, bare inserts %.0f/s, ratio %.2f\n",
		o.Events, len(fmt.Sprintf(eventBody, 0)), o.Rounds, intake, bare, intake/bare)
	if o.Embedded {
		fmt.Fprintf(o.Out, "the same intake on SQLite: %.0f/s\n", median(rates["sqlite"]))
	}
	return intake / bare, nil
}

func (e *eventing) open(ctx context.Context, url string) (err error) {
	log := slog.New(slog.DiscardHandler)
	if e.store, err = store.Open(ctx, store.Options{DatabaseURL: e.DatabaseURL, Shards: 16, Log: log}); err != nil {
		return err
	}
	if e.pool, err = pgxpool.New(ctx, e.DatabaseURL); err != nil {
		return err
	}
	if e.bus, err = bus.Connect(ctx, bus.Options{URL: url, Log: log}); err != nil {
		return err
	}
	if e.nc, err = nats.Connect(url); err != nil {
		return err
	}
	if err := listen(ctx, e.store); err != nil {
		return err
	}
	return e.fill(ctx)
}

// listen saves the rule.
func listen(ctx context.Context, s *store.Store) error {
	return saveRule(ctx, s, EventsDocument,
		rules.Read{Stream: eventsStream, Subject: eventsSubject}, rules.Read{Stream: eventsStream, Subject: "orders.shipped"})
}

func (e *eventing) close() {
	if e.nc != nil {
		e.nc.Close()
	}
	if e.bus != nil {
		e.bus.Close()
	}
	if e.pool != nil {
		e.pool.Close()
	}
	if e.store != nil {
		_ = e.store.Close() // what was measured is over
	}
}

// fill makes the stream and publishes the events.
func (e *eventing) fill(ctx context.Context) error {
	if err := CreateStream(ctx, e.nc); err != nil {
		return err
	}
	return PublishEvents(ctx, e.nc, 0, e.Events)
}

// CreateStream makes the stream of the events, which takes atomic batches.
func CreateStream(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: eventsStream, Subjects: []string{"orders.>"}, Storage: jetstream.FileStorage, AllowAtomicPublish: true,
	})
	return err
}

// PublishEvents publishes events for EventsDocument, each of a key of its own: from a number up
// to another.
func PublishEvents(ctx context.Context, nc *nats.Conn, from, to int) error {
	messages := make([]*nats.Msg, 0, to-from)
	for i := from; i < to; i++ {
		m := nats.NewMsg(eventsSubject)
		m.Data = fmt.Appendf(nil, eventBody, i)
		messages = append(messages, m)
	}
	return publish(ctx, nc, messages)
}

// reset empties the table, and has the stream read from its start. A checkpoint makes the
// runs alike.
func (e *eventing) reset(ctx context.Context) error {
	for _, statement := range []string{
		`TRUNCATE future_job`, `VACUUM (ANALYZE) future_job`,
		`UPDATE event_cursor SET last_seq = 0, last_at = NULL, read_through_at = NULL, created = 0`,
		`CHECKPOINT`,
	} {
		if _, err := e.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// measure runs one way, and checks that each event made its job.
func (e *eventing) measure(ctx context.Context, way drain) (took time.Duration, wal int64, err error) {
	if err := e.reset(ctx); err != nil {
		return 0, 0, err
	}
	before, err := written(ctx, e.pool)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	if err := way.run(ctx); err != nil {
		return 0, 0, err
	}
	took = time.Since(begun)
	after, err := written(ctx, e.pool)
	if err != nil || way.name == "sqlite" {
		return took, 0, err
	}
	var jobs int
	if err := e.pool.QueryRow(ctx, `SELECT count(*) FROM future_job WHERE event IS NOT NULL`).Scan(&jobs); err != nil {
		return 0, 0, err
	}
	if jobs != e.Events {
		return 0, 0, fmt.Errorf("%d jobs, want %d", jobs, e.Events)
	}
	return took, after - before, nil
}

// takeIn runs an intake until all events are jobs.
func (e *eventing) takeIn(ctx context.Context, s *store.Store) error {
	clock := futurejobs.NewClock(s.Now, time.Now)
	if err := clock.Sync(ctx); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	made := &made{all: stop}
	made.left.Store(int64(e.Events))
	intake := events.NewIntake(events.Options{
		Streams: e.bus, Book: rules.NewBook(s, s.Shards()), Ledger: s, Shards: holder(s.Shards()),
		Now: clock.Now, Observer: made, Log: slog.New(slog.DiscardHandler),
	})
	if err := intake.Run(working); err != nil {
		return err
	}
	return ctx.Err()
}

// takeInAlone runs an intake on an empty SQLite.
func (e *eventing) takeInAlone(ctx context.Context) error {
	e.dirs++
	s, err := store.Open(ctx, store.Options{DataDir: fmt.Sprintf("%s/data-%d", e.Dir, e.dirs), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(listen(ctx, s), e.takeIn(ctx, s), s.Close())
}

// holder holds all of so many shards.
type holder int

func (h holder) Holds(int16) bool { return true }
func (h holder) Count() int       { return int(h) }

// made calls all once no job is left to create.
type made struct {
	left atomic.Int64
	all  func()
}

// Taken is of events.Observer.
func (m *made) Taken(outcome string, n int) {
	if outcome == events.Created && m.left.Add(-int64(n)) == 0 {
		m.all()
	}
}

// Alerted is of events.Observer.
func (*made) Alerted(alerts.Alert) {}

// bareBatch is how many rows the floor inserts at once: as many as intake does at most.
const bareBatch = 2000

// bareInsert writes the columns that a new job has.
const bareInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	SELECT * FROM unnest($1::smallint[], $2::int[], $3::int[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::timestamptz[], $8::timestamptz[], $9::text[])
	ON CONFLICT (shard, rule_id, key) DO NOTHING`

// record has intake take in all events once, and keeps the rows, in the order in which it
// wrote them.
func (e *eventing) record(ctx context.Context) error {
	if _, _, err := e.measure(ctx, drain{"intake", func(ctx context.Context) error { return e.takeIn(ctx, e.store) }}); err != nil {
		return err
	}
	for after := int64(0); ; {
		batch := make([]any, 9)
		into := []any{&after}
		for i := range batch {
			into = append(into, &batch[i])
		}
		if err := e.pool.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(max(id), 0), array_agg(shard), array_agg(rule_id), array_agg(version), array_agg(key),
			array_agg(created_at), array_agg(since_at), array_agg(first_check_at), array_agg(next_check_at), array_agg(event)
			FROM (SELECT * FROM future_job WHERE id > $1 ORDER BY id LIMIT %d) f`, bareBatch), after).Scan(into...); err != nil {
			return err
		}
		if after == 0 {
			return nil
		}
		e.same = append(e.same, batch)
	}
}

// insert inserts the rows, batch by batch.
func (e *eventing) insert(ctx context.Context) error {
	for _, batch := range e.same {
		if _, err := e.pool.Exec(ctx, bareInsert, batch...); err != nil {
			return err
		}
	}
	return nil
}
