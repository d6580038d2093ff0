package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// The floor of creating jobs reads the same input as the engine: lines of JSON, or messages of a stream on a broker. It
// decodes them into a struct, as a program written for them does, and inserts batches of the same size, columns and
// bytes.
//
// It has no engine: no rules and expressions, no errors for single lines, no HTTP, no cursor of the stream, no locks,
// no audit log, and no sorted writes. It does not keep rows between rounds: that would slow the engine down too, by
// garbage collection.

// bareBatch is the number of event rows per insert: the engine's maximum.
const bareBatch = 2000

// bareRows are new jobs as columns.
type bareRows struct {
	shard                       []int16
	rule, version               []int32
	key                         []string
	created, since, first, next []time.Time
	event                       []string
}

// bareRule is a rule as known to a program that creates jobs for it.
type bareRule struct {
	*futurejobs.Rule
	after time.Duration // from the start of a job to its first check
}

// bareRuleOf looks up a rule.
func bareRuleOf(ctx context.Context, g database, name string, after time.Duration) (r bareRule, err error) {
	s, err := g.store(ctx)
	if err != nil {
		return r, err
	}
	catalog := rules.NewCatalog(s, s.Shards())
	if err := catalog.Refresh(ctx); err != nil {
		_ = s.Close() // the first error is returned
		return r, err
	}
	newest, err := catalog.Newest(name)
	if err != nil {
		_ = s.Close() // the first error is returned
		return r, err
	}
	return bareRule{newest.Engine(), after}, s.Close()
}

// newBareRows returns rows with capacity for a batch.
func newBareRows() *bareRows {
	return &bareRows{
		shard: make([]int16, 0, bareBatch), rule: make([]int32, 0, bareBatch), version: make([]int32, 0, bareBatch),
		key: make([]string, 0, bareBatch), event: make([]string, 0, bareBatch),
		created: make([]time.Time, 0, bareBatch), since: make([]time.Time, 0, bareBatch),
		first: make([]time.Time, 0, bareBatch), next: make([]time.Time, 0, bareBatch),
	}
}

// add adds a job. Its shard and slot are computed as in the engine: both are part of the row.
func (r *bareRows) add(of bareRule, key, event string, now, since time.Time) {
	slot := of.Grid.Up(since.Add(of.after))
	r.shard, r.rule, r.version = append(r.shard, futurejobs.ShardOf(of.Entity, key, shards)), append(r.rule, of.ID), append(r.version, of.Version)
	r.key, r.event = append(r.key, key), append(r.event, event)
	r.created, r.since = append(r.created, now), append(r.since, since)
	r.first, r.next = append(r.first, slot), append(r.next, slot)
}

// bareCreate creates jobs from bodies of lines, with as many concurrent writers as the engine has clients.
func bareCreate(ctx context.Context, g database, of bareRule, bodies [][]byte) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range createClients {
		group.Go(func() error {
			for i := w; i < len(bodies); i += createClients {
				if err := bareBody(ctx, g, of, bodies[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// bareBody creates the jobs of a body in one transaction, as the engine does.
func bareBody(ctx context.Context, g database, of bareRule, body []byte) error {
	rows, now := newBareRows(), time.Now()
	for line := range bytes.Lines(body) {
		var request struct {
			Rule  string
			Key   string
			Event json.RawMessage
		}
		if err := json.Unmarshal(line, &request); err != nil {
			return err
		}
		if request.Rule != of.Name {
			return fmt.Errorf("a line has the rule %q, want %s", request.Rule, of.Name)
		}
		rows.add(of, request.Key, string(request.Event), now, now)
	}
	return g.insert(ctx, rows)
}

// bareEvents creates jobs from the events of a stream: one goroutine reads and decodes while another inserts.
func bareEvents(ctx context.Context, g database, of bareRule, broker string, jobs int) (err error) {
	nc, err := nats.Connect(broker)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.CreateConsumer(ctx, eventsStream, jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true})
	if err != nil {
		return err
	}
	ready := make(chan *bareRows, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(ready)
		return bareRead(ctx, consumer, of, jobs, ready)
	})
	group.Go(func() error {
		for rows := range ready {
			if err := g.insert(ctx, rows); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// bareRead reads the given number of events.
func bareRead(ctx context.Context, from jetstream.Consumer, of bareRule, jobs int, ready chan<- *bareRows) error {
	for read := 0; read < jobs; {
		batch, err := from.Fetch(min(bareBatch, jobs-read))
		if err != nil {
			return err
		}
		rows, now := newBareRows(), time.Now()
		for msg := range batch.Messages() {
			if err := rows.handle(msg, of, now); err != nil {
				return err
			}
			read++
		}
		if err := batch.Error(); err != nil {
			return err
		}
		select {
		case ready <- rows:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// handle adds the job of an event that is a trigger.
func (r *bareRows) handle(msg jetstream.Msg, of bareRule, now time.Time) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	var event struct {
		ID     string
		Status string
		Total  float64
	}
	if err := json.Unmarshal(msg.Data(), &event); err != nil {
		return err
	}
	if msg.Subject() == eventsSubject && event.Total > 0 && event.Status == "PLACED" {
		r.add(of, event.ID, string(msg.Data()), now, meta.Timestamp)
	}
	return nil
}

// bareInsert writes the columns of a new job.
const bareInsert = `INSERT INTO future_job (shard, rule_id, version, key, created_at, since_at, first_check_at, next_check_at, event)
	SELECT * FROM unnest($1::smallint[], $2::int[], $3::int[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::timestamptz[], $8::timestamptz[], $9::text[])
	ON CONFLICT (shard, rule_id, key) DO NOTHING`

// createdRows counts the jobs due later and the bytes of their bodies.
const createdRows = `SELECT count(*), coalesce(sum(length(key) + length(event)), 0) FROM future_job WHERE `

func checkCreated(there, jobs int) error {
	if there != jobs {
		return fmt.Errorf("%d jobs exist, want %d", there, jobs)
	}
	return nil
}
