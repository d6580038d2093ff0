package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
)

var _ alerts.Publisher = (*AlertPublisher)(nil)

// AlertPublisher publishes alerts to their stream.
type AlertPublisher struct {
	conn    *Conn
	streams *Streams
	stream  *StreamOfAlerts
	encoder alertEncoder
	pace    pacer
}

// Publish implements alerts.Publisher. The stream rejects an alert that it already has, because each alert has its
// own subject and requires it to be empty.
//
// 1. As many alerts as fit are published as one batch, stored completely or not at all.
// 2. If the batch is refused, because the stream has a part of it, is full or does not support batches, its alerts
// are published one by one.
// 3. A failed alert holds up the later ones with its order key. It holds up all others only if none would get
// through.
// 4. A deleted stream is recreated. Its former alerts are not published again.
func (p *AlertPublisher) Publish(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	sent, err := p.publish(ctx, batch)
	if noStream(err) && len(sent) == 0 {
		if err = p.stream.recreate(ctx); err == nil {
			sent, err = p.publish(ctx, batch)
		}
	}
	return sent, p.explain(err)
}

func (p *AlertPublisher) publish(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	d := publishCall{publisher: p, held: make(map[alerts.OrderKey]bool)}
	for len(batch) > 0 && !d.stuck {
		var parcels []outgoing
		parcels, batch = d.load(batch)
		d.deliver(ctx, parcels)
	}
	if len(d.refused) > 0 && !d.stuck {
		return d.sent, &alerts.RejectedError{Alerts: d.refused, Err: p.explain(d.failed)}
	}
	return d.sent, d.failed
}

// sendBatch publishes all parcels or none. It returns a refusal (see refused), a timeout after which all or none are
// stored, or the error that prevented sending.
func (p *AlertPublisher) sendBatch(ctx context.Context, parcels []outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	ctx, done := p.conn.withConnection(ctx, parcels[len(parcels)-1].msg.Subject)
	defer done()
	msgs := make([]*nats.Msg, len(parcels))
	for i, o := range parcels {
		msgs[i] = o.msg
	}
	err := publishBatch(ctx, p.conn, msgs)
	p.pace.record(!noAnswer(err), len(parcels))
	return err
}

// acked waits for the stream's answer or for a denial since begun. An alert already in the stream is no error.
func (p *AlertPublisher) acked(ctx context.Context, f jetstream.PubAckFuture, begun time.Time) error {
	ack, err := p.conn.answer(ctx, f, begun)
	if err == nil && ack.Duplicate || isCode(err, jetstream.JSErrCodeStreamWrongLastSequence) {
		return p.alreadyStored(ctx, f.Msg())
	}
	return err
}

// alreadyStored checks that the stream has an alert that it refused as a duplicate. If the subject has messages of
// another publisher instead, it publishes the alert after them, so that they do not suppress it.
func (p *AlertPublisher) alreadyStored(ctx context.Context, alert *nats.Msg) error {
	id := alert.Header.Get(jetstream.MsgIDHeader)
	first, err := p.streams.next(ctx, p.stream.Name(), alert.Subject, 1)
	if err == nil && first.Seq == 0 {
		err = errRemembered
	}
	if err != nil || first.has(id) {
		return err
	}
	last, err := p.streams.last(ctx, p.stream.Name(), alert.Subject)
	if err != nil || last.has(id) {
		return err
	}
	p.conn.log.Warn("the subject of an alert has a message of another publisher; the alert is published behind it", "subject", alert.Subject, "alert", id)
	behind := &nats.Msg{Subject: alert.Subject, Data: alert.Data, Header: maps.Clone(alert.Header)}
	behind.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last.Seq, 10))
	_, err = p.conn.js.PublishMsg(ctx, behind)
	return err
}

// errRemembered means that the stream refuses an alert as a duplicate but does not have it: the alert was purged, and
// its id is remembered for the duplicate window.
var errRemembered = errors.New("the stream refuses the alert as a repeat and does not have it; it takes the alert once its duplicate_window is over")

// explain adds the remedy to an error of publishing alerts.
func (p *AlertPublisher) explain(err error) error {
	stream := p.stream.Name()
	var refusal *alerts.RejectedError
	switch {
	case err == nil, errors.As(err, &refusal): // a RejectedError is complete
		return err
	case noStream(err):
		return fmt.Errorf("publish alert: %w: stream %s is gone or has no leader; it is recreated as soon as the broker allows it", err, stream)
	case isCode(err, codeStoreFailed):
		return fmt.Errorf("publish alert: stream %s stores no message: %w; if it is full, raise its max_bytes: alerts wait in the database meanwhile", stream, err)
	case errors.Is(err, nats.ErrMaxPayload), isCode(err, codeMessageTooLarge):
		return fmt.Errorf("publish alert: %w: an alert does not fit even without its body and text; raise max_payload of the broker, or max_msg_size of stream %s", err, stream)
	case noAnswer(err):
		return fmt.Errorf("publish alert: %w: stream %s does not answer: %w; check the broker's load and log", ErrUnreachable, stream, err)
	}
	return fmt.Errorf("publish alert: %w", offline(err))
}

// noStream reports whether no stream received the message: the stream does not exist or has no leader.
func noStream(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrStreamNotFound)
}

// noAnswer reports whether a request timed out. The message may be stored or not.
func noAnswer(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrAsyncPublishTimeout) ||
		errors.Is(err, jetstream.ErrNoHeartbeat) || errors.Is(err, context.DeadlineExceeded)
}
