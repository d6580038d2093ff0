package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/rules"
)

// EventsDocument is the rule of the events: a key, a condition over the body, and a resolve event.
const EventsDocument = `
name: bench-events
entity: order
trigger: {event: orders.placed, key: event.id, if: 'event.total > 0 && event.status == "PLACED"'}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 3h, step: primary, severity: warning, text: "order {{key}} is not shipped"}
slot: 15m
`

// eventBody is the body of each event, about 300 bytes; its argument is a number.
const eventBody = `{"id":"ord-%08[1]d","status":"PLACED","total":129.9,"currency":"EUR","placed_at":"2026-01-02T03:04:05Z",` +
	`"customer":{"id":"cus-%08[1]d","name":"Ada Lovelace","city":"London"},` +
	`"items":[{"sku":"A-1042","count":2,"price":49.95},{"sku":"B-7","count":1,"price":30}],"note":"leave it with the neighbours, please"}`

const (
	eventsStream  = "ORDERS"
	eventsSubject = "orders.placed"
)

// intakeRun is a stream full of events, and the database in which they become jobs.
type intakeRun struct {
	ground database
	events int
	server *bus.Server
	bus    *bus.Bus
}

// eventsWays returns the ways to create jobs from the events of a stream, which are published before. A stream is
// applied in order, one transaction after the other, also by the floor.
func eventsWays(ctx context.Context, g database, o Options) (ways []contender, over func(context.Context) error, err error) {
	e := &intakeRun{ground: g, events: o.Jobs}
	over = func(context.Context) error { e.close(); return nil }
	if err := e.open(ctx, filepath.Join(o.Dir, "events")); err != nil {
		e.close()
		return nil, nil, err
	}
	of, err := bareRuleOf(ctx, g, "bench-events", 3*time.Hour)
	if err != nil {
		e.close()
		return nil, nil, err
	}
	return creatingWays(createRun{drainRun{name: Engine, ground: g, shape: Events, jobs: o.Jobs, ready: e.ready}},
		func(ctx context.Context) error { return bareEvents(ctx, g, of, e.server.ClientURL(), e.events) }), over, nil
}

// open starts a broker in a folder, binds a rule to the stream, and publishes the events.
func (e *intakeRun) open(ctx context.Context, dir string) (err error) {
	log := slog.New(slog.DiscardHandler)
	if e.server, err = bus.StartServer(bus.ServerOptions{Dir: dir, Addr: "127.0.0.1:0", Log: log}); err != nil {
		return err
	}
	if e.bus, err = bus.Connect(ctx, bus.Options{URL: e.server.ClientURL(), Log: log}); err != nil {
		return err
	}
	s, err := e.ground.store(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(listen(ctx, s), s.Close()); err != nil {
		return err
	}
	nc, err := nats.Connect(e.server.ClientURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := CreateStream(ctx, nc); err != nil {
		return err
	}
	for from := 0; from < e.events; from += publishedAtOnce {
		if err := PublishEvents(ctx, nc, from, min(from+publishedAtOnce, e.events)); err != nil {
			return err
		}
	}
	return nil
}

// publishedAtOnce is the maximum number of events in memory during publishing.
const publishedAtOnce = 50_000

// listen saves the rule.
func listen(ctx context.Context, s *store.Store) error {
	return saveRule(ctx, s, EventsDocument,
		rules.StreamBinding{Stream: eventsStream, Subject: eventsSubject}, rules.StreamBinding{Stream: eventsStream, Subject: "orders.shipped"})
}

func (e *intakeRun) close() {
	if e.bus != nil {
		e.bus.Close()
	}
	if e.server != nil {
		e.server.Close()
	}
}

// ready resets the cursor to the start of the stream.
func (e *intakeRun) ready(ctx context.Context) (do, rest func(context.Context) error, over func() error, err error) {
	if err := e.ground.run(ctx, `UPDATE event_cursor SET last_seq = 0, last_at = NULL, read_through_at = NULL, created = 0`); err != nil {
		return nil, nil, nil, err
	}
	s, err := e.ground.store(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	return func(ctx context.Context) error { return e.takeIn(ctx, s) }, nil, s.Close, nil
}

// CreateStream creates the stream of the events, which allows atomic batches.
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

// PublishEvents publishes events for EventsDocument, each with its own key, numbered from from up to to.
func PublishEvents(ctx context.Context, nc *nats.Conn, from, to int) error {
	messages := make([]*nats.Msg, 0, to-from)
	for i := from; i < to; i++ {
		m := nats.NewMsg(eventsSubject)
		m.Data = fmt.Appendf(nil, eventBody, i)
		messages = append(messages, m)
	}
	return publish(ctx, nc, messages)
}

// takeIn runs ingest until all events are jobs.
func (e *intakeRun) takeIn(ctx context.Context, s *store.Store) error {
	clock := futurejobs.NewClock(s.Now, time.Now)
	if err := clock.Sync(ctx); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	made := &createCounter{all: stop}
	made.left.Store(int64(e.events))
	intake := events.NewIntake(events.Options{
		Streams: e.bus.Streams, Catalog: rules.NewCatalog(s, s.Shards()), Store: s, Shards: holder(s.Shards()),
		Now: clock.Now, Observer: made, Log: slog.New(slog.DiscardHandler),
	})
	if err := intake.Run(working); err != nil {
		return err
	}
	return ctx.Err()
}

// holder holds all of the given number of shards.
type holder int

func (h holder) Holds(int16) bool { return true }
func (h holder) Count() int       { return int(h) }

// createCounter calls all after the last job is created.
type createCounter struct {
	left atomic.Int64
	all  func()
}

// Ingested implements events.Observer.
func (m *createCounter) Ingested(outcome string, n int) {
	if outcome == events.Created && m.left.Add(-int64(n)) == 0 {
		m.all()
	}
}

// Summarized implements events.Observer.
func (*createCounter) Summarized(int64) {}

// Alerted implements events.Observer.
func (*createCounter) Alerted(alerts.Alert) {}

// The headers of an atomic batch, and the server's maximum batch size.
const (
	batchID       = "Nats-Batch-Id"
	batchSequence = "Nats-Batch-Sequence"
	batchCommit   = "Nats-Batch-Commit"
	batchMost     = 1000
)

// publish publishes messages in consecutive atomic batches.
func publish(ctx context.Context, nc *nats.Conn, messages []*nats.Msg) error {
	for left := messages; len(left) > 0; {
		batch := left[:min(batchMost, len(left))]
		left = left[len(batch):]
		id := uuid.NewString()
		for i, m := range batch {
			m.Header[batchID], m.Header[batchSequence] = []string{id}, []string{strconv.Itoa(i + 1)}
			if i+1 < len(batch) {
				if err := nc.PublishMsg(m); err != nil {
					return err
				}
				continue
			}
			m.Header[batchCommit] = []string{"1"}
			answer, err := nc.RequestMsgWithContext(ctx, m)
			if err != nil {
				return err
			}
			delete(m.Header, batchCommit)
			if want := fmt.Sprintf(`"count":%d`, len(batch)); !strings.Contains(string(answer.Data), want) {
				return fmt.Errorf("the broker answers %s", answer.Data)
			}
		}
	}
	return nil
}
