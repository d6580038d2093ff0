package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
)

var errReconnected = errors.New("the connection was made anew")

// Limits of one pull. Its bytes bound a reader's memory. After two missing heartbeats the reader asks the broker for the
// state of the pull, and after pullExpiry without any message it ends.
const (
	pullMessages  = 2000
	pullBytes     = 8 << 20
	followBytes   = 512 << 10 // for a follower, because hundreds of them may run
	pullExpiry    = 30 * time.Second
	pullHeartbeat = time.Second
	maxFilters    = 1000        // the broker compares each with each when it creates the consumer
	idleConsumer  = time.Minute // the broker then deletes the consumer of a dead node
)

// pastQuiet is the wait for past messages before the reader queries the broker for more. Messages counted at the
// start may expire meanwhile.
const pastQuiet = time.Second

// consumer receives the messages of a stream on some subjects through its own consumer at the broker, without storage
// or acknowledgements, because the cursor is in the database. Any irregularity, such as a delivery gap or a reconnect,
// ends it.
type consumer struct {
	conn      *Conn
	stream    string
	subjects  []string    // empty: all
	match     *subjectSet // the node filters, because the broker could not; nil: the broker does
	created   time.Time
	remote    jetstream.Consumer
	name      string
	pullBytes int // bytes of a pull, or more if a single message may be larger

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	batch      *pull     // nil: no open request
	pulled     time.Time // time of the last request
	delivered  uint64    // consumer sequence of the last message
	reconnects uint64
	pending    uint64 // messages on the subjects after the last one
	closed     atomic.Bool
}

// newConsumer returns a consumer that is not open yet.
func newConsumer(conn *Conn, stream string, subjects []string) *consumer {
	return &consumer{conn: conn, stream: stream, subjects: subjects, reconnects: conn.nc.Stats().Reconnects}
}

// openWith creates the consumer at the broker. setStart sets its start.
func (c *consumer) openWith(ctx context.Context, setStart func(*jetstream.ConsumerConfig)) (err error) {
	cfg := jetstream.ConsumerConfig{
		Description: "deadman",
		AckPolicy:   jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: idleConsumer, FilterSubjects: c.subjects,
	}
	unfiltered := func() {
		set := newSubjectSet(c.subjects)
		cfg.FilterSubjects, c.match = nil, &set
	}
	if len(c.subjects) > maxFilters {
		unfiltered()
	}
	setStart(&cfg)
	begun := time.Now()
	c.remote, err = c.conn.js.CreateConsumer(ctx, c.stream, cfg)
	if isCode(err, jetstream.JSErrCodeOverlappingFilterSubjects) {
		unfiltered()
		c.remote, err = c.conn.js.CreateConsumer(ctx, c.stream, cfg)
	}
	if err != nil {
		return c.conn.denied.explain(err, begun, consumerAPI("CREATE", c.stream))
	}
	c.name, c.pending = c.remote.CachedInfo().Name, c.remote.CachedInfo().NumPending
	return nil
}

// one returns the next message, or nil after the timeout. If the caller already has some messages, it does not wait.
func (c *consumer) one(ctx context.Context, timeout <-chan time.Time, some bool) (*nats.Msg, error) {
	for {
		if err := c.pull(); err != nil {
			return nil, err
		}
		if some && len(c.batch.messages) == 0 {
			return nil, nil
		}
		select {
		case msg, ok := <-c.batch.messages:
			if ok {
				return msg, nil
			}
			if err := c.ended(); err != nil {
				return nil, err
			}
			if some {
				return nil, c.pull() // a caller gets at most one pull's bytes at once
			}
		case <-timeout:
			return nil, nil
		case <-ctx.Done():
			if some {
				return nil, nil // otherwise the caller's messages would be lost
			}
			return nil, ctx.Err()
		}
	}
}

// pull ensures an open request.
func (c *consumer) pull() error {
	if c.batch != nil && len(c.batch.messages) > 0 {
		return nil
	}
	if c.closed.Load() || c.conn.nc.Stats().Reconnects != c.reconnects {
		return c.lost(errReconnected)
	}
	if c.batch != nil {
		return nil
	}
	c.pulled = time.Now()
	batch, err := startPull(c.ctx, c.conn.nc, c.stream, c.remote, c.delivered, max(c.pullBytes, int(c.conn.nc.MaxPayload())+c.pullBytes/8))
	if err != nil {
		return c.lost(err)
	}
	c.batch = batch
	return nil
}

// ended handles the end of a pull and clears it for the next one.
func (c *consumer) ended() error {
	err := c.batch.err
	c.batch.stop()
	c.batch = nil
	if err == nil {
		return nil
	}
	return c.lost(c.conn.denied.explain(err, c.pulled, consumerAPI("MSG.NEXT", c.stream)))
}

// lost returns the error that ends the consumer. After ErrDenied a new reader is pointless.
func (c *consumer) lost(why error) error {
	if errors.Is(why, ErrDenied) {
		return fmt.Errorf("read stream %s: %w", c.stream, why)
	}
	return fmt.Errorf("%w: stream %s: %w", ErrReaderLost, c.stream, why)
}

// event converts a message to an event. ok is false if the message is not on the consumer's subjects.
func (c *consumer) event(msg *nats.Msg) (e futurejobs.Event, ok bool, err error) {
	meta, err := msg.Metadata()
	if err != nil {
		return e, false, c.lost(err)
	}
	if meta.Sequence.Consumer != c.delivered+1 {
		return e, false, c.lost(fmt.Errorf("delivery %d came after %d", meta.Sequence.Consumer, c.delivered))
	}
	c.delivered, c.pending = meta.Sequence.Consumer, meta.NumPending
	e = futurejobs.Event{
		Stream: c.stream, Subject: msg.Subject, Seq: meta.Sequence.Stream, At: meta.Timestamp.UTC().Truncate(time.Microsecond),
		ID: givenID(msg.Header), Header: msg.Header, Data: msg.Data, StreamCreatedAt: c.created,
	}
	return e, c.match == nil || c.match.has(msg.Subject), nil
}

// yieldUntil yields events up to a sequence. done is false if no message came for a while.
func (c *consumer) yieldUntil(ctx context.Context, through uint64, yield func(futurejobs.Event, error) bool) (done bool, err error) {
	quiet := time.NewTimer(pastQuiet)
	defer quiet.Stop()
	for {
		msg, err := c.one(ctx, quiet.C, false)
		if msg == nil || err != nil {
			return false, err
		}
		e, ok, err := c.event(msg)
		if err != nil {
			return false, err
		}
		if e.Seq > through || ok && !yield(e, nil) {
			return true, nil
		}
		if meta, err := msg.Metadata(); err != nil || meta.NumPending == 0 {
			return true, err
		}
	}
}

// exhausted reports whether the broker has no more messages for the consumer.
func (c *consumer) exhausted(ctx context.Context) (bool, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	begun := time.Now()
	info, err := c.remote.Info(ctx)
	if err != nil {
		return false, c.lost(c.conn.denied.explain(err, begun, consumerAPI("INFO", c.stream)))
	}
	return info.NumPending == 0 && info.Delivered.Consumer == c.delivered, nil
}

// Close deletes the consumer. It implements events.Reader.
func (c *consumer) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.cancel()
	if c.batch != nil {
		c.batch.stop()
	}
	if !c.conn.Connected() {
		return // the broker deletes the consumer by itself
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.conn.js.DeleteConsumer(ctx, c.stream, c.name); err != nil {
		c.conn.log.Debug("a consumer is left to the broker", "stream", c.stream, "err", err)
	}
}

// senderIDHeader is the header with the sender's id of an event published over HTTP. The message id derives from it.
const senderIDHeader = "idempotency-key"

// givenID returns the producer's id of an event.
func givenID(h nats.Header) string {
	return cmp.Or(h.Get("ce-id"), h.Get(senderIDHeader), h.Get(jetstream.MsgIDHeader))
}
