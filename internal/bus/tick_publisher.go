package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
)

var _ scheduler.Emitter = (*TickPublisher)(nil)

const (
	// emitTries bounds the attempts to publish while other clients publish on the same subject.
	emitTries = 20
	// clocksApart is the largest lag of the broker's clock behind the database's. The search for an event starts that
	// long before its tick.
	clocksApart = time.Hour
)

// TickPublisher publishes the events of schedules, each once. It is safe for concurrent use.
type TickPublisher struct {
	conn    *Conn
	streams *Streams
	binder  *Binder
	events  *EventPublisher
	known   tickIndex
}

// PublishTick implements scheduler.Emitter. It does not depend on the stream's duplicate window, because the window
// may have passed or another node may publish the same event:
//
// 1. It searches the stream's messages on the subject since the tick for the event. It reads each message once.
// 2. It publishes the event on condition that the subject has no newer message.
// 3. If the subject has one, it starts over.
// 4. A subject that no stream takes in is captured.
//
// A subject with constant traffic may be too busy for that.
func (p *TickPublisher) PublishTick(ctx context.Context, e futurejobs.Emission, held scheduler.Held) error {
	if err := checkLiteral(e.Subject); err != nil {
		return err
	}
	ticks := p.known.on(e.Subject)
	ticks.mu.Lock()
	defer ticks.mu.Unlock()
	before := len(ticks.ids)
	defer func() { p.known.count(len(ticks.ids) - before) }()
	for range emitTries {
		if there, err := p.search(ctx, ticks, e); there || err != nil {
			return err
		}
		err := held(ctx, func(ctx context.Context) (isAnswered bool, err error) {
			_, seq, _, err := p.events.publish(ctx, p.emission(e, ticks.stream, ticks.last))
			if err == nil {
				ticks.add(e.ID, seq)
			}
			var refused jetstream.JetStreamError
			return err == nil || errors.As(err, &refused) && refused.APIError() != nil, err
		})
		if !isCode(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
			return err
		}
		ticks.isBehind = true
	}
	return fmt.Errorf("%s is too busy: others published on it each of %d times; let ticks have a subject of their own", e.Subject, emitTries)
}

// search reports whether the stream of a subject has the event of a tick.
func (p *TickPublisher) search(ctx context.Context, ticks *subjectTicks, e futurejobs.Emission) (there bool, err error) {
	since := e.At.Add(-clocksApart)
	ok, err := ticks.covers(ctx, p.streams, since)
	if err != nil {
		return false, err
	}
	if !ok {
		info, err := p.streamFor(ctx, e.Subject)
		if err != nil {
			return false, err
		}
		ticks.stream, ticks.created, ticks.since = info.Config.Name, createdAt(info), since
		ticks.last, ticks.isBehind, ticks.ids = 0, true, make(map[string]bool)
	}
	if ticks.isBehind {
		if err := ticks.read(ctx, p.streams); err != nil {
			return false, err
		}
	}
	return ticks.ids[e.ID] && !skipTickSeqCheck(), nil
}

// streamFor returns the stream that takes in a subject.
func (p *TickPublisher) streamFor(ctx context.Context, subject string) (*jetstream.StreamInfo, error) {
	for range 2 {
		streams, err := p.streams.list(ctx)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(streams, func(s *jetstream.StreamInfo) bool { return covers(subject, s.Config.Subjects) })
		if i >= 0 {
			return streams[i], nil
		}
		if _, err := p.binder.Bind(ctx, []string{subject}); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %s; it comes as a copy alone, so add it to a stream", ErrNoStream, subject)
}

// emission encodes the event of a rule's tick, with the stream's last sequence on the subject as a condition.
func (p *TickPublisher) emission(e futurejobs.Emission, stream string, last uint64) *nats.Msg {
	msg := encodeTick(e, p.conn.opts.source())
	msg.Header[jetstream.ExpectedStreamHeader] = []string{stream}
	msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	return msg
}

// encodeTick encodes the event of a tick as a CloudEvent in binary mode.
func encodeTick(e futurejobs.Emission, source string) *nats.Msg {
	msg := nats.NewMsg(e.Subject)
	msg.Data = e.Data
	msg.Header = nats.Header{"content-type": {"application/json"}, jetstream.MsgIDHeader: {e.ID}}
	for name, value := range e.Attributes(source) {
		msg.Header[name] = []string{value}
	}
	return msg
}
