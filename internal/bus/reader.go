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

// What one pull asks for. Its bytes bound what a reader holds in memory; a heartbeat that is
// missing twice ends the reader.
const (
	pullMessages  = 2000
	pullBytes     = 8 << 20
	followBytes   = 512 << 10 // of a follower's pull: there are hundreds of them
	pullExpiry    = 30 * time.Second
	pullHeartbeat = time.Second
	idleConsumer  = time.Minute // after which the broker forgets the consumer of a dead node
)

// reader reads a stream through a consumer of its own, which keeps nothing and acknowledges
// nothing: where reading stands is in the database. Anything irregular, a gap as much as a
// reconnect, ends the reader, and a new one goes on from there; so nothing is skipped.
type reader struct {
	bus      *Bus
	stream   string
	subjects []string // empty: all
	match    bool     // the broker could not filter; the reader does
	created  time.Time
	takes    []string // what the stream took in when the reader was opened
	consumer jetstream.Consumer
	name     string
	most     int // bytes of a pull; more where a message may have more

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	batch      *pull     // nil: there is no request at the broker
	pulled     time.Time // when the broker was asked last
	delivered  uint64    // the consumer's sequence of the last message
	reconnects uint64
	clear      uint64 // from a message that was asked about up to here, none is on the subjects
	pending    uint64 // on the subjects, after the last message
	quiet      bool   // nothing came when it was asked for last
	closed     atomic.Bool

	accounts bool          // for each sequence; else gaps are ignored
	own      bool          // the stream takes in nothing but what is read
	last     uint64        // the sequence up to which messages were returned, or are in gaps
	gaps     []events.Span // were not returned: on other subjects, or lost
	until    time.Time     // when the stream took in the message after the last gap; zero: none yet
	loss     events.Loss   // found already, and not told by Lost yet
}

// Read starts reading a stream's messages on the subjects after a sequence. The reader
// returns ErrReaderLost when reading was interrupted, ErrDenied when the broker's user lacks a
// permission, ErrStreamReplaced when the stream was
// recreated, and jetstream's own error when it is gone.
func (b *Bus) Read(ctx context.Context, stream string, after uint64, subjects []string) (events.Reader, error) {
	return b.read(ctx, stream, after, subjects, pullBytes)
}

// read is Read with so many bytes at a time.
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

// openWith makes the consumer; begin says where it begins.
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

// one returns the next message, or nil when none came in time. With some in hand already it
// does not wait.
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
				return nil, r.pull() // one pull's bytes are what a caller gets at once
			}
		case <-timeout:
			return nil, nil
		case <-ctx.Done():
			if some {
				return nil, nil // what is in hand would be lost
			}
			return nil, ctx.Err()
		}
	}
}

// pull keeps one request at the broker.
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

// ended judges why a pull came to its end, and makes way for the next one.
func (r *reader) ended() error {
	err := r.batch.err
	r.batch.stop()
	r.batch = nil
	if err == nil {
		return nil
	}
	return r.lost(r.bus.denied.explain(err, r.pulled, consumerAPI("MSG.NEXT", r.stream)))
}

// lost ends the reader. What the broker does not permit is not worth another one.
func (r *reader) lost(why error) error {
	if errors.Is(why, ErrDenied) {
		return fmt.Errorf("read stream %s: %w", r.stream, why)
	}
	return fmt.Errorf("%w: stream %s: %w", ErrReaderLost, r.stream, why)
}

// event makes an event of a message; ok is false for one that nobody asked for.
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

// senderIDHeader has the id that the sender of an event gave it over HTTP: the message's own is made of it.
const senderIDHeader = "idempotency-key"

// givenID is the id that the producer gave an event.
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
		return // the broker forgets the consumer by itself
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := r.bus.js.DeleteConsumer(ctx, r.stream, r.name); err != nil {
		r.bus.log.Debug("a consumer is left to the broker", "stream", r.stream, "err", err)
	}
}
