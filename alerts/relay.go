package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"deadman/internal/failpoints"
)

// The rhythm of a relay.
const (
	relayLanes        = 4 // while one waits for the stream, others read and mark
	relayBatch        = 1000
	relayPollInterval = time.Second
	relayBackoff      = 100 * time.Millisecond // after the first failure; doubled with each
	relayMaxBackoff   = 10 * time.Second       // and never more than this
	relayRefusalRetry = time.Second            // after the first refusal of an alert; doubled up to relayPatient
	relayMarkTimeout  = 5 * time.Second        // to mark what is in the stream when stopped
)

// Relay puts the alerts that were decided into the stream. A row is marked after the stream
// acknowledged its alert, so a crash between the two repeats the publication, which the
// stream refuses. Shards are spread over lanes, which relay side by side; a job is in one
// shard, so what is said about it stays in order.
type Relay struct {
	// Quotas say which alerts are published. Set before Run; nil: all are.
	Quotas Quotas

	outbox    Outbox
	publisher Publisher
	shards    func() []int16
	log       *slog.Logger
	lanes     [relayLanes]relayWorker
	all       relayWorker // Step's

	mu     sync.Mutex
	failed [relayLanes]error
}

// NewRelay returns a relay of the alerts of the shards that are held at the time.
func NewRelay(o Outbox, p Publisher, shards func() []int16, log *slog.Logger) *Relay {
	r := &Relay{outbox: o, publisher: p, shards: shards, log: log}
	for i := range r.lanes {
		r.lanes[i] = relayWorker{Relay: r, number: i, wake: make(chan struct{}, 1)}
	}
	r.all = relayWorker{Relay: r}
	return r
}

// Wake says that there is something to relay. It is a hint; the relay looks by itself too.
func (r *Relay) Wake() {
	for i := range r.lanes {
		select {
		case r.lanes[i].wake <- struct{}{}:
		default:
		}
	}
}

// Err returns why alerts do not get out at the moment, or nil.
func (r *Relay) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err()
}

func (r *Relay) err() error {
	for _, err := range r.failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// Run relays until ctx ends. What fails is tried again for ever.
func (r *Relay) Run(ctx context.Context) error {
	var lanes sync.WaitGroup
	for i := range r.lanes {
		lanes.Go(func() { r.lanes[i].run(ctx) })
	}
	lanes.Wait()
	return nil
}

// Step relays one batch of all shards that are held. more says that there may be another.
// What is refused is left alone by the steps that follow.
func (r *Relay) Step(ctx context.Context) (more bool, err error) {
	return r.all.step(ctx, r.shards())
}

// mark finishes what was acknowledged also when the relay is being stopped.
func (r *Relay) mark(ctx context.Context, sent []Alert) error {
	if len(sent) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayMarkTimeout)
	defer cancel()
	if err := r.outbox.MarkPublished(ctx, sent); err != nil {
		return fmt.Errorf("mark alerts as published: %w", err)
	}
	failpoints.Point("relay.marked")
	return nil
}

// setErr logs when relaying begins to fail and when it works again.
func (r *Relay) setErr(ctx context.Context, lane int, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.err()
	r.failed[lane] = err
	switch after := r.err(); {
	case after != nil && before == nil:
		r.log.Error("alerts wait in the database; publishing is tried again", "err", err)
	case after == nil && before != nil:
		r.log.Info("alerts are published again")
	}
}
