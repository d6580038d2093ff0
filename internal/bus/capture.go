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

// Settings of the lock for changes of DEADMAN_EVENTS. A change is a read and a write without compare-and-set in
// JetStream, so two concurrent nodes would lose a subject. A consumer of this name is the lock. Its creation is
// atomic in a cluster, and the broker deletes it when its owner is gone.
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
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node may have created it first
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

// leastEventCap is the smallest limit of DEADMAN_EVENTS if the broker lacks storage.
const leastEventCap = 64 << 20

// createEvents creates DEADMAN_EVENTS. The stream's limit reserves storage at the broker. If that is too much, the
// limit is halved, so that rules are served.
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

// lockEvents waits for the lock of DEADMAN_EVENTS.
func (b *Bus) lockEvents(ctx context.Context) (unlock func(), err error) {
	cfg := jetstream.ConsumerConfig{
		Name: lockName, Description: uuid.NewString(), // unique, because creating an identical consumer twice is no error
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
