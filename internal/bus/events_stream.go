package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/access"
)

// Settings of the lock for changes of DEADMAN_EVENTS. A change is a read and a write without compare-and-set in
// JetStream, so two concurrent nodes would lose a subject. A consumer of this name is the lock. Its creation is
// atomic in a cluster, and the broker deletes it when its owner is gone.
const (
	lockName  = "deadman-capture"
	lockFor   = 10 * time.Second
	lockRetry = 50 * time.Millisecond
)

// StreamOfEvents maintains the stream DEADMAN_EVENTS, which captures the events that no other stream takes in.
type StreamOfEvents struct {
	conn        *Conn
	streams     *Streams
	replication replication
	usage       backlog
	quotas      *access.Quotas // nil: none
}

// Name returns the name of the stream.
func (e *StreamOfEvents) Name() string { return e.conn.opts.eventsStream() }

// BoundBy makes quotas bound the subjects that the stream captures for tenants. It must be called before any rule is saved.
func (e *StreamOfEvents) BoundBy(q *access.Quotas) { e.quotas = q }

// backlog is the state of DEADMAN_EVENTS at its last check.
type backlog struct {
	mu     sync.Mutex
	share  float64
	known  bool
	warned bool

	subjects []string
}

// capture adds subjects to DEADMAN_EVENTS by one change. It leaves out those that the stream cannot take in beside its own.
func (e *StreamOfEvents) capture(ctx context.Context, subjects []string) error {
	ctx, cancel := context.WithTimeout(ctx, lockFor)
	defer cancel()
	begun := time.Now()
	err := e.conn.denied.explain(e.addSubjects(ctx, subjects), begun, streamAPI("*", e.Name()), consumerAPI("CREATE", e.Name()))
	if errors.Is(err, access.ErrQuota) {
		return err
	}
	if err != nil {
		return fmt.Errorf("capture %.300s in stream %s: %w", strings.Join(subjects, ", "), e.Name(), err)
	}
	e.conn.log.Info("events are captured", "subjects", subjects, "stream", e.Name())
	return nil
}

func (e *StreamOfEvents) addSubjects(ctx context.Context, subjects []string) error {
	_, err := e.conn.js.Stream(ctx, e.Name())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		all := withSubjects(nil, subjects)
		if err := e.roomFor(ctx, nil, all); err != nil {
			return err
		}
		err = e.create(ctx, all)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node may have created it first
			return err
		}
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	unlock, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	stream, err := e.conn.js.Stream(ctx, e.Name())
	if err != nil {
		return err
	}
	cfg := stream.CachedInfo().Config
	all := withSubjects(cfg.Subjects, subjects)
	if slices.Equal(all, cfg.Subjects) && cfg.AllowAtomicPublish {
		return nil
	}
	if err := e.roomFor(ctx, cfg.Subjects, all); err != nil {
		return err
	}
	cfg.Subjects, cfg.AllowAtomicPublish = all, true
	_, err = e.conn.js.UpdateStream(ctx, cfg)
	return err
}

// roomFor returns an error if a change of the stream's subjects gives the token of a tenant more than its quotas allow.
// Those within the token's bounds count, independent of the token that captured them: the stream keeps them.
func (e *StreamOfEvents) roomFor(ctx context.Context, before, after []string) error {
	b := access.BoundsOf(ctx)
	if e.quotas == nil || b == nil || b.Prefix == "" {
		return nil
	}
	n := within(after, b)
	if n <= within(before, b) { // a wildcard takes the place of others
		return nil
	}
	return e.quotas.MayCapture(b.Prefix, n)
}

// within returns the number of subjects that one of the bounds allows.
func within(subjects []string, all ...*access.Bounds) (n int) {
	for _, s := range subjects {
		if slices.ContainsFunc(all, func(b *access.Bounds) bool { return b.Subjects.Cover(s) || b.Publish.Cover(s) }) {
			n++
		}
	}
	return n
}

// CountWithin returns the number of subjects within one of the bounds that the stream captured at the last check.
func (e *StreamOfEvents) CountWithin(bounds []*access.Bounds) int {
	e.usage.mu.Lock()
	defer e.usage.mu.Unlock()
	return within(e.usage.subjects, bounds...)
}

// create creates DEADMAN_EVENTS, so that rules are served.
func (e *StreamOfEvents) create(ctx context.Context, subjects []string) error {
	return e.replication.createWithin(ctx, e.conn.opts.EventsBytes, "events_bytes", func(limit int64) jetstream.StreamConfig {
		return e.conn.opts.eventsConfig(subjects, limit)
	})
}

// replicate adds the missing copies of the stream.
func (e *StreamOfEvents) replicate(ctx context.Context) error {
	return e.replication.addReplicas(ctx, e.Name(), e.lock)
}

// lock waits for the lock of DEADMAN_EVENTS.
func (e *StreamOfEvents) lock(ctx context.Context) (unlock func(), err error) {
	cfg := jetstream.ConsumerConfig{
		Name: lockName, Description: uuid.NewString(), // unique, because creating an identical consumer twice is no error
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverNewPolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: lockFor,
	}
	for {
		_, err := e.conn.js.CreateConsumer(ctx, e.Name(), cfg)
		if err == nil {
			return func() { e.unlock(ctx) }, nil
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

func (e *StreamOfEvents) unlock(ctx context.Context) {
	if err := e.conn.js.DeleteConsumer(ctx, e.Name(), lockName); err != nil {
		e.conn.log.Warn("a lock is left to the broker, which takes it away", "lock", lockName, "for", lockFor, "err", err)
	}
}

// Inspect checks DEADMAN_EVENTS once, if it exists. It logs once if the stream has no limit, as one created by an
// earlier version.
func (e *StreamOfEvents) Inspect(ctx context.Context) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	info, err := e.streams.fetchInfo(ctx, e.Name())
	e.usage.mu.Lock()
	defer e.usage.mu.Unlock()
	l := &e.usage
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		l.share, l.known, l.subjects = 0, true, nil
		return
	case err != nil: // ingest reports it
		l.known = false
		return
	}
	c := info.Config
	l.subjects = c.Subjects
	l.share, l.known = max(share(info.State.Bytes, c.MaxBytes), share(info.State.Msgs, c.MaxMsgs)), true
	if c.MaxBytes <= 0 && !l.warned {
		e.conn.log.Warn("the stream of events has no max_bytes, so that one publisher can fill the disk; set one that is larger than what it has",
			"stream", e.Name(), "bytes", info.State.Bytes, "remedy", "nats stream edit "+e.Name()+" --max-bytes 4GiB")
	}
	l.warned = c.MaxBytes <= 0
}

// Usage returns the fill level of DEADMAN_EVENTS at the last check, 1 being full. It is 0 if the stream does not
// exist or has no limit. ok is false if the level is unknown.
func (e *StreamOfEvents) Usage() (share float64, ok bool) {
	e.usage.mu.Lock()
	defer e.usage.mu.Unlock()
	return e.usage.share, e.usage.known
}
