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
	"deadman/internal/events"
)

// followWait is the longest wait of one read from a quiet stream.
const followWait = time.Second

// AlertReader reads the published alerts from their stream.
type AlertReader struct {
	streams *Streams
	log     *slog.Logger
	foreign foreign
}

// Info returns the state of the stream of alerts.
func (r *AlertReader) Info(ctx context.Context) (events.Info, error) {
	return r.streams.Info(ctx, r.streams.conn.opts.alertsStream())
}

// Follow yields alerts as a consumer receives them: the last backlog alerts, then new ones until ctx ends. It skips
// other messages and waits for a lost connection. Any other error is yielded last.
func (r *AlertReader) Follow(ctx context.Context, backlog int) iter.Seq2[alerts.Alert, error] {
	return func(yield func(alerts.Alert, error) bool) {
		info, err := r.Info(ctx)
		if err != nil {
			yield(alerts.Alert{}, err)
			return
		}
		after := info.LastSeq - min(info.LastSeq, uint64(max(backlog, 0)))
		for ctx.Err() == nil {
			after, err = r.follow(ctx, after, yield)
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

// follow reads until an interruption, and returns the last sequence. A nil error means that the consumer stopped.
func (r *AlertReader) follow(ctx context.Context, after uint64, yield func(alerts.Alert, error) bool) (uint64, error) {
	reader, err := r.streams.read(ctx, r.streams.conn.opts.alertsStream(), after, nil, followBytes)
	if err != nil {
		return after, err
	}
	defer reader.Close()
	for {
		got, err := reader.Next(ctx, 1, followWait) // a slow consumer holds one alert, and the pull's buffer
		if err != nil {
			return after, err
		}
		for _, e := range got {
			a, err := r.alertOf(e)
			if err != nil {
				r.foreign.skip(r.log, r.streams.conn.opts.Namespace.Subject(alertSubjects), err)
			} else if !yield(a, nil) {
				return after, nil
			}
			after = e.Seq
		}
	}
}

// Between yields the alerts of the stream after one sequence and up to another, in order. It skips other messages.
// An error ends the sequence.
func (r *AlertReader) Between(ctx context.Context, after, through uint64) iter.Seq2[alerts.Alert, error] {
	return func(yield func(alerts.Alert, error) bool) {
		if after >= through {
			return
		}
		if err := r.between(ctx, after, through, yield); err != nil {
			yield(alerts.Alert{}, err)
		}
	}
}

func (r *AlertReader) between(ctx context.Context, after, through uint64, yield func(alerts.Alert, error) bool) error {
	reader, err := r.streams.read(ctx, r.streams.conn.opts.alertsStream(), after, nil, pullBytes)
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		got, err := reader.Next(ctx, pullMessages, followWait)
		if err != nil {
			return err
		}
		for _, e := range got {
			if e.Seq > through {
				return nil
			}
			if a, err := r.alertOf(e); err == nil && !yield(a, nil) || e.Seq == through {
				return nil
			}
		}
		if len(got) > 0 {
			continue
		}
		if done, err := reader.exhausted(ctx); done || err != nil {
			return err
		}
	}
}

// Foreign returns the number of skipped messages on the stream of alerts that were not alerts. Each follower counts
// its own.
func (r *AlertReader) Foreign() uint64 { return r.foreign.skipped.Load() }

// errForeign means that a message on the stream of alerts is not an alert of deadman.
var errForeign = errors.New("is not an alert")

// alertOf decodes the alert of a message, or returns errForeign. The alert's fields determine its subject, so a
// message on another subject has another publisher.
func (r *AlertReader) alertOf(e futurejobs.Event) (a alerts.Alert, err error) {
	if err := json.Unmarshal(e.Data, &a); err != nil {
		return a, fmt.Errorf("message %d of %s on %s %w: %w", e.Seq, e.Stream, e.Subject, errForeign, err)
	}
	if own := r.Subject(a); e.Subject != own {
		return a, fmt.Errorf("message %d of %s on %s %w: as one, it would be on %s", e.Seq, e.Stream, e.Subject, errForeign, own)
	}
	return a, nil
}

// Subject returns the subject that an alert is published on.
func (r *AlertReader) Subject(a alerts.Alert) string {
	return r.streams.conn.opts.Namespace.Subject(a.Subject())
}

// foreign counts the messages on the stream of alerts that are not alerts. It is safe for concurrent use.
type foreign struct {
	skipped atomic.Uint64
	first   sync.Once
}

// skip counts a message and logs the first one.
func (f *foreign) skip(log *slog.Logger, subject string, err error) {
	f.skipped.Add(1)
	f.first.Do(func() {
		log.Warn("a message on the stream of alerts is not an alert and was skipped; later ones are only counted; grant the permission to publish to deadman alone on "+subject, "err", err)
	})
}

// passing reports whether reading can be retried after err.
func passing(err error) bool {
	return errors.Is(err, ErrReaderLost) || errors.Is(err, ErrNoLeader) || unready(err) || errors.Is(err, nats.ErrConnectionReconnecting) ||
		errors.Is(err, jetstream.ErrNoHeartbeat)
}
