package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// EventPublisher publishes events to the streams of their subjects.
type EventPublisher struct{ conn *Conn }

// PublishEvent publishes an event and returns once it is stored, with its stream and sequence. An id repeated within
// the stream's duplicate window is stored once: repeated reports that the stream has an event with this id at seq,
// regardless of its subject and body.
//
// It returns ErrSubject for invalid subjects, ErrHeader for reserved headers, ErrTooLarge, ErrNoStream if no stream
// takes in the subject, ErrDenied if the broker's user lacks the permission, and ErrUnreachable without a connection
// or an answer. Without an answer the event may be stored or not; with an id it can be published again.
func (p *EventPublisher) PublishEvent(ctx context.Context, subject string, data []byte, header map[string][]string, id string) (stream string, seq uint64, repeated bool, err error) {
	if err := checkLiteral(subject); err != nil {
		return "", 0, false, err
	}
	msg, err := eventMsg(subject, data, header, id)
	if err != nil {
		return "", 0, false, err
	}
	return p.publish(ctx, msg)
}

func (p *EventPublisher) publish(ctx context.Context, msg *nats.Msg) (stream string, seq uint64, repeated bool, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	ctx, done := p.conn.withConnection(ctx, msg.Subject)
	defer done()
	ack, err := p.conn.js.PublishMsg(ctx, msg)
	if err != nil {
		return "", 0, false, p.unpublished(msg.Subject, len(msg.Data), noAnswerError(ctx, err))
	}
	return ack.Stream, ack.Sequence, ack.Duplicate, nil
}

// unpublished adds the remedy to an error of publishing an event.
func (p *EventPublisher) unpublished(subject string, size int, err error) error {
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %s; apply a rule that listens to it, or add it to a stream", ErrNoStream, subject)
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return fmt.Errorf("%w: a body of %d bytes with its headers; the broker takes at most %d", ErrTooLarge, size, p.conn.nc.MaxPayload())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrDisconnected):
		return fmt.Errorf("%w: no answer, the event may be stored or not; send it again with the same id", ErrUnreachable)
	}
	return fmt.Errorf("publish event: %w", offline(err))
}

func eventMsg(subject string, data []byte, header map[string][]string, id string) (*nats.Msg, error) {
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	for k, v := range header {
		if brokerHeader(k) {
			return nil, fmt.Errorf("%w: %s belongs to the broker; leave it out", ErrHeader, k)
		}
		msg.Header[k] = v
	}
	if id != "" {
		msg.Header.Set(jetstream.MsgIDHeader, id)
	}
	return msg, nil
}

// brokerHeader reports whether a header is an instruction to the broker.
func brokerHeader(name string) bool {
	const prefix = "nats-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// CheckLiteral returns ErrSubject for a subject that can't be published on.
func CheckLiteral(subject string) error { return checkLiteral(subject) }
