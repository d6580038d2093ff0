package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
)

// A change of DEADMAN_EVENTS is a read and a write, and JetStream has no compare-and-set
// for it: two nodes at once would lose one's subject. A consumer of this name is the lock.
// Creating it is atomic in a cluster, and the broker takes it away when its owner is gone.
const (
	lockName  = "deadman-capture"
	lockFor   = 10 * time.Second
	lockRetry = 50 * time.Millisecond
)

// capture adds a subject to DEADMAN_EVENTS.
func (b *Bus) capture(ctx context.Context, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, lockFor)
	defer cancel()
	begun := time.Now()
	err := b.denied.explain(b.addSubject(ctx, subject), begun, streamAPI("*", EventsStream), consumerAPI("CREATE", EventsStream))
	if err != nil {
		return fmt.Errorf("capture %s in stream %s: %w", subject, EventsStream, err)
	}
	b.log.Info("events are captured", "subject", subject, "stream", EventsStream)
	return nil
}

func (b *Bus) addSubject(ctx context.Context, subject string) error {
	_, err := b.js.Stream(ctx, EventsStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = b.createEvents(ctx, subject)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was faster
			return err
		}
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	unlock, err := b.lockEvents(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	stream, err := b.js.Stream(ctx, EventsStream)
	if err != nil {
		return err
	}
	cfg := stream.CachedInfo().Config
	if covers(subject, cfg.Subjects) {
		return nil
	}
	cfg.Subjects = broadest(append(slices.Clone(cfg.Subjects), subject))
	_, err = b.js.UpdateStream(ctx, cfg)
	return err
}

// leastEventCap is what DEADMAN_EVENTS may hold at least where the broker has little room.
const leastEventCap = 64 << 20

// createEvents makes DEADMAN_EVENTS. Its cap reserves room at the broker: where there is too little, it is halved, so that rules are served.
func (b *Bus) createEvents(ctx context.Context, subject string) error {
	for most := b.opts.EventsBytes; ; most /= 2 {
		err := b.create(ctx, b.opts.eventsConfig([]string{subject}, most))
		switch {
		case err == nil && most < b.opts.EventsBytes:
			b.log.Warn("the broker has little room: the stream of events holds less than it was to; free disk space, then raise its max_bytes",
				"stream", EventsStream, "max_bytes", most, "wanted", b.opts.EventsBytes)
			return nil
		case !isCode(err, codeStorageExceeded):
			return err
		case most/2 < leastEventCap:
			return fmt.Errorf("%w; it reserves %d bytes: free disk space, or set a smaller cap (events_bytes)", err, most)
		}
	}
}

// lockEvents waits until no other node changes DEADMAN_EVENTS.
func (b *Bus) lockEvents(ctx context.Context) (unlock func(), err error) {
	cfg := jetstream.ConsumerConfig{
		Name: lockName, Description: uuid.NewString(), // unlike any other's, or creating it twice would be no error
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverNewPolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: lockFor,
	}
	for {
		_, err := b.js.CreateConsumer(ctx, EventsStream, cfg)
		if err == nil {
			return func() { b.unlockEvents(ctx) }, nil
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) {
			return nil, err
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, fmt.Errorf("another node is changing it: %w", ctx.Err())
		}
	}
}

func (b *Bus) unlockEvents(ctx context.Context) {
	if err := b.js.DeleteConsumer(ctx, EventsStream, lockName); err != nil {
		b.log.Warn("a lock is left to the broker, which takes it away", "lock", lockName, "for", lockFor, "err", err)
	}
}
