package bus

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
)

// Replay returns a stream's events on the subjects from a time up to a sequence. An error ends the sequence.
func (b *Bus) Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		if err := b.replay(ctx, stream, subjects, since, through, yield); err != nil {
			yield(futurejobs.Event{}, fmt.Errorf("read what stream %s still has: %w", stream, err))
		}
	}
}

func (b *Bus) replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64, yield func(futurejobs.Event, error) bool) error {
	r := &reader{bus: b, stream: stream, subjects: broadest(subjects), reconnects: b.nc.Stats().Reconnects}
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	opening, cancel := b.withTimeout(ctx)
	defer cancel()
	info, err := b.ask(opening, stream)
	if err != nil {
		return err
	}
	r.created = createdAt(info)
	if err := r.openWith(opening, func(cfg *jetstream.ConsumerConfig) {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}); err != nil {
		return err
	}
	defer r.Close()
	for {
		if done, err := r.exhausted(ctx); done || err != nil {
			return err
		}
		if done, err := r.yieldUntil(ctx, through, yield); done || err != nil {
			return err
		}
	}
}

// pastQuiet is the wait for past messages before the broker is asked whether more remain. Messages counted at the
// start may expire meanwhile.
const pastQuiet = time.Second

// yieldUntil yields events up to a sequence. done is false if no message came for a while.
func (r *reader) yieldUntil(ctx context.Context, through uint64, yield func(futurejobs.Event, error) bool) (done bool, err error) {
	quiet := time.NewTimer(pastQuiet)
	defer quiet.Stop()
	for {
		msg, err := r.one(ctx, quiet.C, false)
		if msg == nil || err != nil {
			return false, err
		}
		e, ok, err := r.event(msg)
		if err != nil {
			return false, err
		}
		if e.Seq > through || ok && !yield(e, nil) {
			return true, nil
		}
		if meta, err := msg.Metadata(); err != nil || meta.NumPending == 0 {
			return true, err
		}
	}
}

// exhausted reports whether the broker has no more messages for the reader.
func (r *reader) exhausted(ctx context.Context) (bool, error) {
	ctx, cancel := r.bus.withTimeout(ctx)
	defer cancel()
	begun := time.Now()
	info, err := r.consumer.Info(ctx)
	if err != nil {
		return false, r.lost(r.bus.denied.explain(err, begun, consumerAPI("INFO", r.stream)))
	}
	return info.NumPending == 0 && info.Delivered.Consumer == r.delivered, nil
}
