package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
)

// Bounds of messages in flight.
const (
	batchMost  = 1000    // alerts per batch, the server's limit
	batchBytes = 4 << 20 // bytes of a batch with more than one alert
	waveMost   = 256     // alerts in flight without batches
)

// outgoing is an alert with its message.
type outgoing struct {
	alert alerts.Alert
	msg   *nats.Msg
}

// publishCall is the state of one call of Publish.
type publishCall struct {
	publisher *AlertPublisher
	sent      []alerts.Alert
	refused   []alerts.Alert
	failed    error                    // error that stopped the call, or else the first one
	held      map[alerts.OrderKey]bool // order keys with a failed alert
	stuck     bool                     // no alert would get through
}

// load encodes the alerts that go out together, and returns the rest.
func (d *publishCall) load(batch []alerts.Alert) (parcels []outgoing, left []alerts.Alert) {
	limit, size := d.publisher.pace.window(), 0
	for i, a := range batch {
		if d.held[a.OrderKey()] {
			continue
		}
		msg, err := d.publisher.encoder.encode(a)
		if err != nil {
			d.fail(outgoing{alert: a}, err)
			continue
		}
		size += len(msg.Data)
		if len(parcels) == limit || len(parcels) > 0 && size > batchBytes {
			return parcels, batch[i:]
		}
		parcels = append(parcels, outgoing{a, msg})
	}
	return parcels, nil
}

// deliver publishes the parcels as a batch if possible, otherwise one by one.
func (d *publishCall) deliver(ctx context.Context, parcels []outgoing) {
	if len(parcels) < 2 || !d.publisher.stream.batches.Load() {
		d.oneByOne(ctx, parcels)
		return
	}
	switch err := d.publisher.sendBatch(ctx, parcels); {
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
		busy, limit := make(map[alerts.OrderKey]bool), min(waveMost, d.publisher.pace.window())
		for _, p := range parcels {
			switch l := p.alert.OrderKey(); {
			case d.held[l]:
			case busy[l] || len(wave) == limit:
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
		if futures[i], err = d.publisher.conn.js.PublishMsgAsync(p.msg, jetstream.WithStallWait(answerTimeout)); err != nil {
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
		err := d.publisher.acked(ctx, f, begun)
		silent = silent || noAnswer(err)
		if err == nil {
			d.sent = append(d.sent, wave[i].alert)
		} else {
			d.fail(wave[i], err)
		}
	}
	d.publisher.pace.record(!silent, len(wave))
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

// ofOne reports whether an error is specific to one alert.
func ofOne(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, errUnfit) ||
		errors.Is(err, errRemembered) || isCode(err, codeMessageTooLarge)
}
