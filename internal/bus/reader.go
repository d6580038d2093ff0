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
	"deadman/internal/events"
	"deadman/internal/failpoints"
)

var errReconnected = errors.New("the connection was made anew")

var (
	_ events.Streams = (*Bus)(nil)
	_ events.Reader  = (*reader)(nil)
)

// Limits of one pull. Its bytes bound a reader's memory, and two missing heartbeats end the reader.
const (
	pullMessages  = 2000
	pullBytes     = 8 << 20
	followBytes   = 512 << 10 // for a follower, because hundreds of them may run
	pullExpiry    = 30 * time.Second
	pullHeartbeat = time.Second
	idleConsumer  = time.Minute // the broker then deletes the consumer of a dead node
)

// reader reads a stream through its own consumer, without storage or acknowledgements, because the cursor is in the
// database. Any irregularity, such as a delivery gap or a reconnect, ends the reader. A new reader continues from the
// cursor, so no message is skipped.
type reader struct {
	bus      *Bus
	stream   string
	subjects []string // empty: all
	match    bool     // the reader filters, because the broker could not
	created  time.Time
	takes    []string // subjects of the stream at opening
	consumer jetstream.Consumer
	name     string
	most     int // bytes of a pull, or more if a single message may be larger

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	batch      *pull     // nil: no open request
	pulled     time.Time // time of the last request
	delivered  uint64    // consumer sequence of the last message
	reconnects uint64
	clear      uint64 // no message on the subjects up to this sequence
	pending    uint64 // messages on the subjects after the last one
	quiet      bool   // the last Next returned no messages
	closed     atomic.Bool

	accounts bool          // tracks gaps
	own      bool          // the stream takes in only the subjects of the reader
	last     uint64        // last sequence that was returned or is in a gap
	gaps     []events.Span // sequences not returned: on other subjects, or lost
	until    time.Time     // time of the message after the last gap; zero: none yet
	loss     events.Loss   // found but not yet returned by Lost
}

// Read opens a reader of a stream's messages on the subjects after a sequence. The reader returns ErrReaderLost if
// reading was interrupted, ErrDenied if the broker's user lacks a permission, ErrStreamReplaced if the stream was
// recreated, and jetstream's own error if it was deleted.
func (b *Bus) Read(ctx context.Context, stream string, after uint64, subjects []string) (events.Reader, error) {
	return b.read(ctx, stream, after, subjects, pullBytes)
}

// read is Read with a size of pulls.
func (b *Bus) read(ctx context.Context, stream string, after uint64, subjects []string, most int) (*reader, error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	r := &reader{bus: b, stream: stream, subjects: broadest(subjects), most: most, reconnects: b.nc.Stats().Reconnects, accounts: true, last: after}
	info, err := b.leaderInfo(ctx, stream)
	if err != nil {
		return nil, err
	}
	r.created, r.takes, r.own = createdAt(info), info.Config.Subjects, ownsAll(info, r.subjects)
	if info.State.FirstSeq > after {
		r.skip(info.State.FirstSeq, firstAt(info))
		r.last = info.State.FirstSeq - 1
	}
	if err := r.openWith(ctx, func(cfg *jetstream.ConsumerConfig) {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, after+1
	}); err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// openWith creates the consumer. begin sets its start.
func (r *reader) openWith(ctx context.Context, begin func(*jetstream.ConsumerConfig)) (err error) {
	cfg := jetstream.ConsumerConfig{
		Description: "deadman",
		AckPolicy:   jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: idleConsumer, FilterSubjects: r.subjects,
	}
	begin(&cfg)
	begun := time.Now()
	r.consumer, err = r.bus.js.CreateConsumer(ctx, r.stream, cfg)
	if isCode(err, jetstream.JSErrCodeOverlappingFilterSubjects) {
		cfg.FilterSubjects, r.match = nil, true
		r.consumer, err = r.bus.js.CreateConsumer(ctx, r.stream, cfg)
	}
	if err != nil {
		return r.bus.denied.explain(err, begun, consumerAPI("CREATE", r.stream))
	}
	r.name, r.pending = r.consumer.CachedInfo().Name, r.consumer.CachedInfo().NumPending
	return nil
}

// Next implements events.Reader.
func (r *reader) Next(ctx context.Context, limit int, wait time.Duration) ([]futurejobs.Event, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var got []futurejobs.Event
	for len(got) < limit {
		msg, err := r.one(ctx, timer.C, len(got) > 0)
		if err != nil {
			return nil, err
		}
		if msg == nil {
			break
		}
		e, ok, err := r.event(msg)
		if err != nil {
			return nil, err
		}
		if ok {
			got = append(got, e)
			failpoints.Point("reader.message")
		}
	}
	r.quiet = len(got) == 0
	return got, nil
}

// one returns the next message, or nil after the timeout. If the caller already has some messages, it does not wait.
func (r *reader) one(ctx context.Context, timeout <-chan time.Time, some bool) (*nats.Msg, error) {
	for {
		if err := r.pull(); err != nil {
			return nil, err
		}
		if some && len(r.batch.messages) == 0 {
			return nil, nil
		}
		select {
		case msg, ok := <-r.batch.messages:
			if ok {
				return msg, nil
			}
			if err := r.ended(); err != nil {
				return nil, err
			}
			if some {
				return nil, r.pull() // a caller gets at most one pull's bytes at once
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
func (r *reader) pull() error {
	if r.batch != nil && len(r.batch.messages) > 0 {
		return nil
	}
	if r.closed.Load() || r.bus.nc.Stats().Reconnects != r.reconnects {
		return r.lost(errReconnected)
	}
	if r.batch != nil {
		return nil
	}
	r.pulled = time.Now()
	batch, err := startPull(r.ctx, r.bus.nc, r.stream, r.name, max(r.most, int(r.bus.nc.MaxPayload())+r.most/8))
	if err != nil {
		return r.lost(err)
	}
	r.batch = batch
	return nil
}

// ended handles the end of a pull and clears it for the next one.
func (r *reader) ended() error {
	err := r.batch.err
	r.batch.stop()
	r.batch = nil
	if err == nil {
		return nil
	}
	return r.lost(r.bus.denied.explain(err, r.pulled, consumerAPI("MSG.NEXT", r.stream)))
}

// lost returns the error that ends the reader. After ErrDenied a new reader is pointless.
func (r *reader) lost(why error) error {
	if errors.Is(why, ErrDenied) {
		return fmt.Errorf("read stream %s: %w", r.stream, why)
	}
	return fmt.Errorf("%w: stream %s: %w", ErrReaderLost, r.stream, why)
}

// event converts a message to an event. ok is false if the message is not on the reader's subjects.
func (r *reader) event(msg *nats.Msg) (e futurejobs.Event, ok bool, err error) {
	meta, err := msg.Metadata()
	if err != nil {
		return e, false, r.lost(err)
	}
	if meta.Sequence.Consumer != r.delivered+1 {
		return e, false, r.lost(fmt.Errorf("delivery %d came after %d", meta.Sequence.Consumer, r.delivered))
	}
	r.delivered, r.pending = meta.Sequence.Consumer, meta.NumPending
	at := meta.Timestamp.UTC().Truncate(time.Microsecond)
	if r.accounts {
		r.skip(meta.Sequence.Stream, at)
	}
	if r.match && !covers(msg.Subject, r.subjects) {
		return e, false, nil
	}
	return futurejobs.Event{
		Stream: r.stream, Subject: msg.Subject, Seq: meta.Sequence.Stream, At: at,
		ID: givenID(msg.Header), Header: msg.Header, Data: msg.Data, StreamCreatedAt: r.created,
	}, true, nil
}

// senderIDHeader is the header with the sender's id of an event published over HTTP. The message id derives from it.
const senderIDHeader = "idempotency-key"

// givenID returns the producer's id of an event.
func givenID(h nats.Header) string {
	return cmp.Or(h.Get("ce-id"), h.Get(senderIDHeader), h.Get(jetstream.MsgIDHeader))
}

// Close implements events.Reader.
func (r *reader) Close() {
	if r.closed.Swap(true) {
		return
	}
	r.cancel()
	if r.batch != nil {
		r.batch.stop()
	}
	if !r.bus.Connected() {
		return // the broker deletes the consumer by itself
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.bus.js.DeleteConsumer(ctx, r.stream, r.name); err != nil {
		r.bus.log.Debug("a consumer is left to the broker", "stream", r.stream, "err", err)
	}
}
