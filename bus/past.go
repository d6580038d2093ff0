package bus

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
)

// Past returns the events of a stream on the subjects that it took in at an instant or later,
// up to a sequence. After an error there is nothing more.
func (b *Bus) Past(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error] {
	return func(yield func(futurejobs.Event, error) bool) {
		if err := b.past(ctx, stream, subjects, since, through, yield); err != nil {
			yield(futurejobs.Event{}, fmt.Errorf("read what stream %s still has: %w", stream, err))
		}
	}
}

func (b *Bus) past(ctx context.Context, stream string, subjects []string, since time.Time, through uint64, yield func(futurejobs.Event, error) bool) error {
	r := &reader{bus: b, stream: stream, subjects: widest(subjects), reconnects: b.nc.Stats().Reconnects}
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	opening, cancel := b.within(ctx)
	defer cancel()
	if err := r.openWith(opening, func(cfg *jetstream.ConsumerConfig) {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}); err != nil {
		return err
	}
	defer r.Close()
	left := r.consumer.CachedInfo().NumPending
	for left > 0 {
		msg, err := r.one(ctx, nil, false)
		if err != nil {
			return err
		}
		left--
		e, ok, err := r.event(msg)
		if err != nil {
			return err
		}
		if e.Seq > through || ok && !yield(e, nil) {
			return nil
		}
	}
	return nil
}
