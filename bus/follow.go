package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// followWait is how long one look at a quiet stream takes.
const followWait = time.Second

// Follow yields alerts as a consumer sees them: the last backlog of them, then what comes,
// until ctx ends. A connection that is lost is waited for. Any other error is yielded last.
func (b *Bus) Follow(ctx context.Context, backlog int) iter.Seq2[alerts.Alert, error] {
	return func(yield func(alerts.Alert, error) bool) {
		info, err := b.Info(ctx, AlertsStream)
		if err != nil {
			yield(alerts.Alert{}, err)
			return
		}
		after := info.LastSeq - min(info.LastSeq, uint64(max(backlog, 0)))
		for ctx.Err() == nil {
			after, err = b.follow(ctx, after, yield)
			if err == nil || ctx.Err() != nil {
				return
			}
			if !passing(err) {
				yield(alerts.Alert{}, err)
				return
			}
			select {
			case <-time.After(reconnectWait):
			case <-ctx.Done():
			}
		}
	}
}

// follow reads until something interrupts it, and returns how far it came. No error means
// that the consumer has had enough.
func (b *Bus) follow(ctx context.Context, after uint64, yield func(alerts.Alert, error) bool) (uint64, error) {
	r, err := b.Read(ctx, AlertsStream, after, nil)
	if err != nil {
		return after, err
	}
	defer r.Close()
	for {
		got, err := r.Next(ctx, pullMessages, followWait)
		if err != nil {
			return after, err
		}
		for _, e := range got {
			if !yield(alertOf(e)) {
				return after, nil
			}
			after = e.Seq
		}
	}
}

func alertOf(e futurejobs.Event) (a alerts.Alert, err error) {
	if err := json.Unmarshal(e.Data, &a); err != nil {
		return a, fmt.Errorf("message %d of %s is not an alert: %w", e.Seq, e.Stream, err)
	}
	return a, nil
}

// passing reports whether reading may go on after a while.
func passing(err error) bool {
	return errors.Is(err, ErrReaderLost) || errors.Is(err, ErrNoLeader) || unready(err) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, jetstream.ErrNoHeartbeat)
}
