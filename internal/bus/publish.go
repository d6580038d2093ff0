package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
)

var _ alerts.Publisher = (*Bus)(nil)

// Publish implements alerts.Publisher. The stream rejects an alert that it already has, because each alert has its
// own subject and requires it to be empty.
//
// 1. As many alerts as fit are published as one batch, stored completely or not at all.
// 2. If the batch is refused, because the stream has a part of it, is full or does not support batches, its alerts
// are published one by one.
// 3. A failed alert holds up the later ones with its order key. It holds up all others only if none would get
// through.
// 4. A deleted stream is recreated. Its former alerts are not published again.
func (b *Bus) Publish(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	sent, err := b.publish(ctx, batch)
	if connectionLost(err) && len(sent) == 0 {
		if err = b.recreateAlerts(ctx); err == nil {
			sent, err = b.publish(ctx, batch)
		}
	}
	return sent, publishing(err)
}

func (b *Bus) publish(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	d := publishCall{bus: b, held: make(map[alerts.OrderKey]bool)}
	for len(batch) > 0 && !d.stuck {
		var parcels []outgoing
		parcels, batch = d.load(batch)
		d.deliver(ctx, parcels)
	}
	if len(d.refused) > 0 && !d.stuck {
		return d.sent, &alerts.RejectedError{Alerts: d.refused, Err: publishing(d.failed)}
	}
	return d.sent, d.failed
}

// outgoing is an alert with its message.
type outgoing struct {
	alert alerts.Alert
	msg   *nats.Msg
}

// publishCall is the state of one call of Publish.
type publishCall struct {
	bus     *Bus
	sent    []alerts.Alert
	refused []alerts.Alert
	failed  error                    // error that stopped the call, or else the first one
	held    map[alerts.OrderKey]bool // order keys with a failed alert
	stuck   bool                     // no alert would get through
}

// fail records a failed alert. It holds up the alerts with its order key, or all alerts if the error is not specific
// to this one.
func (d *publishCall) fail(p outgoing, err error) {
	d.held[p.alert.OrderKey()] = true
	if ofOne(err) {
		d.refused = append(d.refused, p.alert)
	}
	if d.failed == nil || !d.stuck && !ofOne(err) {
		d.failed = err
	}
	d.stuck = d.stuck || !ofOne(err)
}

// errRemembered means that the stream refuses an alert as a duplicate but does not have it: the alert was purged, and
// its id is remembered for the duplicate window.
var errRemembered = errors.New("the stream refuses the alert as a repeat and does not have it; it takes the alert once its duplicate_window is over")

// ofOne reports whether an error is specific to one alert.
func ofOne(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, errUnfit) ||
		errors.Is(err, errRemembered) || isCode(err, codeMessageTooLarge)
}

// load encodes the alerts that go out together, and returns the rest.
func (d *publishCall) load(batch []alerts.Alert) (parcels []outgoing, left []alerts.Alert) {
	most, size := d.bus.pace.window(), 0
	for i, a := range batch {
		if d.held[a.OrderKey()] {
			continue
		}
		msg, err := d.bus.alertMsg(a)
		if err != nil {
			d.fail(outgoing{alert: a}, err)
			continue
		}
		size += len(msg.Data)
		if len(parcels) == most || len(parcels) > 0 && size > batchBytes {
			return parcels, batch[i:]
		}
		parcels = append(parcels, outgoing{a, msg})
	}
	return parcels, nil
}

// deliver publishes the parcels as a batch if possible, otherwise one by one.
func (d *publishCall) deliver(ctx context.Context, parcels []outgoing) {
	if len(parcels) < 2 || !d.bus.batches.Load() {
		d.oneByOne(ctx, parcels)
		return
	}
	switch err := d.bus.sendBatch(ctx, parcels); {
	case err == nil:
		for _, p := range parcels {
			d.sent = append(d.sent, p.alert)
		}
	case refused(err):
		d.oneByOne(ctx, parcels)
	default:
		d.fail(parcels[0], err)
	}
}

// oneByOne publishes in waves with at most one alert per order key.
func (d *publishCall) oneByOne(ctx context.Context, parcels []outgoing) {
	for len(parcels) > 0 && !d.stuck {
		var wave, later []outgoing
		busy, most := make(map[alerts.OrderKey]bool), min(waveMost, d.bus.pace.window())
		for _, p := range parcels {
			switch l := p.alert.OrderKey(); {
			case d.held[l]:
			case busy[l] || len(wave) == most:
				busy[l] = true
				later = append(later, p)
			default:
				busy[l] = true
				wave = append(wave, p)
			}
		}
		d.send(ctx, wave)
		parcels = later
	}
}

// send publishes a wave asynchronously, then waits for every answer.
func (d *publishCall) send(ctx context.Context, wave []outgoing) {
	begun := time.Now()
	futures := make([]jetstream.PubAckFuture, len(wave)) // nil: not sent
	for i, p := range wave {
		var err error
		if futures[i], err = d.bus.js.PublishMsgAsync(p.msg, jetstream.WithStallWait(answerTimeout)); err != nil {
			d.fail(p, err)
		}
		if d.stuck {
			break
		}
	}
	silent := false
	for i, f := range futures {
		if f == nil {
			continue
		}
		err := d.bus.acked(ctx, f, begun)
		silent = silent || noAnswer(err)
		if err == nil {
			d.sent = append(d.sent, wave[i].alert)
		} else {
			d.fail(wave[i], err)
		}
	}
	d.bus.pace.record(!silent, len(wave))
}

// acked waits for the stream's answer or for a denial since begun. An alert already in the stream is no error.
func (b *Bus) acked(ctx context.Context, f jetstream.PubAckFuture, begun time.Time) error {
	for {
		denied := b.denied.next()
		if err := b.denied.since(begun, f.Msg().Subject); err != nil {
			return err
		}
		select {
		case ack := <-f.Ok():
			if ack.Duplicate {
				return b.alreadyStored(ctx, f.Msg())
			}
			return nil
		case err := <-f.Err():
			if isCode(err, jetstream.JSErrCodeStreamWrongLastSequence) {
				err = b.alreadyStored(ctx, f.Msg())
			}
			return err
		case <-denied:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// alreadyStored checks that the stream has an alert that it refused as a duplicate. If the subject has messages of
// another publisher instead, it publishes the alert after them, so that they do not suppress it.
func (b *Bus) alreadyStored(ctx context.Context, alert *nats.Msg) error {
	id := alert.Header.Get(jetstream.MsgIDHeader)
	first, err := b.next(ctx, AlertsStream, alert.Subject, 1)
	if err == nil && first.Seq == 0 {
		err = errRemembered
	}
	if err != nil || first.has(id) {
		return err
	}
	last, err := b.last(ctx, AlertsStream, alert.Subject)
	if err != nil || last.has(id) {
		return err
	}
	b.log.Warn("the subject of an alert has a message of another publisher; the alert is published behind it", "subject", alert.Subject, "alert", id)
	behind := &nats.Msg{Subject: alert.Subject, Data: alert.Data, Header: maps.Clone(alert.Header)}
	behind.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last.Seq, 10))
	_, err = b.js.PublishMsg(ctx, behind)
	return err
}

// has reports whether a message has the id.
func (m storedMessage) has(id string) bool {
	header, err := nats.DecodeHeadersMsg(m.Header)
	return err == nil && header.Get(jetstream.MsgIDHeader) == id
}

// publishing adds the remedy to an error of publishing alerts.
func publishing(err error) error {
	var refusal *alerts.RejectedError
	switch {
	case err == nil, errors.As(err, &refusal): // a RejectedError is complete
		return err
	case connectionLost(err):
		return fmt.Errorf("publish alert: %w: stream %s is gone or has no leader; it is made again once the broker lets it", err, AlertsStream)
	case isCode(err, codeStoreFailed):
		return fmt.Errorf("publish alert: stream %s takes nothing in: %w; if it is full, raise its max_bytes: alerts wait in the database meanwhile", AlertsStream, err)
	case errors.Is(err, nats.ErrMaxPayload), isCode(err, codeMessageTooLarge):
		return fmt.Errorf("publish alert: %w: an alert does not fit even without its body and text; raise max_payload of the broker, or max_msg_size of stream %s", err, AlertsStream)
	case noAnswer(err):
		return fmt.Errorf("publish alert: %w: stream %s does not answer: %w; look at the broker's load and log", ErrUnreachable, AlertsStream, err)
	}
	return fmt.Errorf("publish alert: %w", offline(err))
}

// connectionLost reports whether no stream received the message: the stream does not exist or has no leader.
func connectionLost(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrStreamNotFound)
}

// noAnswer reports whether a request timed out. The message may be stored or not.
func noAnswer(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrAsyncPublishTimeout) ||
		errors.Is(err, jetstream.ErrNoHeartbeat) || errors.Is(err, context.DeadlineExceeded)
}

// CheckLiteral returns ErrSubject for a subject that can't be published on.
func CheckLiteral(subject string) error { return checkLiteral(subject) }

// PublishCore publishes a message to the current subscribers, and returns once the broker has it. It returns
// ErrSubject as PublishEvent does, ErrDenied if the broker's user lacks the permission, and ErrUnreachable without a
// connection. The broker reports a denial before it answers the flush.
func (b *Bus) PublishCore(ctx context.Context, subject string, data []byte) error {
	if err := checkLiteral(subject); err != nil {
		return err
	}
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	if !b.Connected() {
		return ErrUnreachable // the client would buffer it and send it late
	}
	begun, before := time.Now(), b.nc.LastError()
	if err := b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("say: %w", offline(err))
	}
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("say: %w", offline(err))
	}
	if err := b.nc.LastError(); err != nil && !errors.Is(before, err) {
		b.denied.record(err, b.log) // the error handler may not have run yet
	}
	return b.denied.since(begun, subject)
}

// Bounds of messages in flight.
const (
	batchMost  = 1000    // alerts per batch, the server's limit
	batchBytes = 4 << 20 // bytes of a batch with more than one alert
	waveMost   = 256     // alerts in flight without batches
)

// pacer adapts the number of alerts in flight to the broker and the network. It halves the number after a timeout and
// doubles it after an answer. Otherwise a batch too slow for its timeout would be sent again and again without ever
// being confirmed.
type pacer struct{ less atomic.Int64 } // difference to batchMost

func (p *pacer) window() int { return batchMost - int(p.less.Load()) }

// record records whether sent alerts were answered.
func (p *pacer) record(answer bool, sent int) {
	most := p.window() * 2
	if !answer {
		most = max(sent/2, 1)
	}
	p.less.Store(int64(batchMost - min(most, batchMost)))
}
