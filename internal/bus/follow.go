package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// followWait is how long one look at a quiet stream takes.
const followWait = time.Second

// Follow yields alerts as a consumer sees them: the last backlog of them, then what comes,
// until ctx ends. A message that is no alert is passed over. A connection that is lost is waited
// for. Any other error is yielded last.
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
	r, err := b.read(ctx, AlertsStream, after, nil, followBytes)
	if err != nil {
		return after, err
	}
	defer r.Close()
	for {
		got, err := r.Next(ctx, 1, followWait) // a slow consumer holds one, and what the pull has
		if err != nil {
			return after, err
		}
		for _, e := range got {
			a, err := alertOf(e)
			if err != nil {
				b.foreign.skip(b.log, err)
			} else if !yield(a, nil) {
				return after, nil
			}
			after = e.Seq
		}
	}
}

// errForeign means that a message on the stream of alerts is no alert of deadman.
var errForeign = errors.New("is not an alert")

// alertOf is the alert that a message is, or errForeign. An alert's fields
// make its subject: a message on another subject is of another publisher.
func alertOf(e futurejobs.Event) (a alerts.Alert, err error) {
	if err := json.Unmarshal(e.Data, &a); err != nil {
		return a, fmt.Errorf("message %d of %s on %s %w: %w", e.Seq, e.Stream, e.Subject, errForeign, err)
	}
	if e.Subject != a.Subject() {
		return a, fmt.Errorf("message %d of %s on %s %w: as one, it would be on %s", e.Seq, e.Stream, e.Subject, errForeign, a.Subject())
	}
	return a, nil
}

// foreign counts the messages on the stream of alerts that are no alerts. It is safe for concurrent
// use.
type foreign struct {
	skipped atomic.Uint64
	first   sync.Once
}

// skip counts one, and logs the first.
func (f *foreign) skip(log *slog.Logger, err error) {
	f.skipped.Add(1)
	f.first.Do(func() {
		log.Warn("a message on the alert stream is no alert and is passed over; later ones are only counted; grant publishing to deadman alone on "+alertSubjects, "err", err)
	})
}

// Foreign is how many messages on the stream of alerts were no alerts, and were passed over; each
// follower counts.
func (b *Bus) Foreign() uint64 { return b.foreign.skipped.Load() }

// passing reports whether reading may go on after a while.
func passing(err error) bool {
	return errors.Is(err, ErrReaderLost) || errors.Is(err, ErrNoLeader) || unready(err) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, jetstream.ErrNoHeartbeat)
}
