package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"deadman/failpoints"
)

// The rhythm of a relay.
const (
	relayLanes   = 4 // while one waits for the stream, others read and mark
	relayBatch   = 1000
	relayPoll    = time.Second
	relayBackoff = 100 * time.Millisecond // after the first failure; doubled with each
	relayPatient = 10 * time.Second       // and never more than this
	relayFinish  = 5 * time.Second        // to mark what is in the stream when stopped
)

// Relay puts the alerts that were decided into the stream. A row is marked after the stream
// acknowledged its alert, so a crash between the two repeats the publication, which the
// stream refuses. Shards are spread over lanes, which relay side by side; a job is in one
// shard, so what is said about it stays in order.
type Relay struct {
	outbox    Outbox
	publisher Publisher
	shards    func() []int16
	log       *slog.Logger
	wake      [relayLanes]chan struct{}

	mu     sync.Mutex
	failed [relayLanes]error
}

// NewRelay returns a relay of the alerts of the shards that are held at the time.
func NewRelay(o Outbox, p Publisher, shards func() []int16, log *slog.Logger) *Relay {
	r := &Relay{outbox: o, publisher: p, shards: shards, log: log}
	for i := range r.wake {
		r.wake[i] = make(chan struct{}, 1)
	}
	return r
}

// Wake says that there is something to relay. It is a hint; the relay looks by itself too.
func (r *Relay) Wake() {
	for _, wake := range r.wake {
		select {
		case wake <- struct{}{}:
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
	for lane := range relayLanes {
		lanes.Go(func() { r.run(ctx, lane) })
	}
	lanes.Wait()
	return nil
}

func (r *Relay) run(ctx context.Context, lane int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	wake, pause := r.wake[lane], relayBackoff
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wake:
		}
		more, err := r.step(ctx, r.of(lane))
		r.say(ctx, lane, err)
		switch {
		case err != nil:
			wake = nil // a hint is no reason to hurry a broker that fails
			timer.Reset(pause)
			pause = min(2*pause, relayPatient)
			continue
		case more:
			timer.Reset(0)
		default:
			timer.Reset(relayPoll)
		}
		wake, pause = r.wake[lane], relayBackoff
	}
}

// of are the shards of a lane that are held.
func (r *Relay) of(lane int) []int16 {
	var mine []int16
	for _, shard := range r.shards() {
		if int(shard)%relayLanes == lane {
			mine = append(mine, shard)
		}
	}
	return mine
}

// Step relays one batch of all shards that are held. more says that there may be another.
func (r *Relay) Step(ctx context.Context) (more bool, err error) {
	return r.step(ctx, r.shards())
}

func (r *Relay) step(ctx context.Context, held []int16) (more bool, err error) {
	if len(held) == 0 {
		return false, nil
	}
	batch, err := r.outbox.Unpublished(ctx, held, relayBatch)
	if err != nil {
		return false, fmt.Errorf("read alerts: %w", err)
	}
	if len(batch) == 0 {
		return false, nil
	}
	failpoints.Here("relay.read")
	sent, err := r.publisher.Publish(ctx, batch)
	if err := failpoints.Fail("relay.published"); err != nil {
		return true, err // as if no answer had come
	}
	return len(batch) == relayBatch, errors.Join(err, r.mark(ctx, sent))
}

// mark finishes what was acknowledged also when the relay is being stopped.
func (r *Relay) mark(ctx context.Context, sent []Alert) error {
	if len(sent) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayFinish)
	defer cancel()
	if err := r.outbox.MarkPublished(ctx, sent); err != nil {
		return fmt.Errorf("mark alerts as published: %w", err)
	}
	failpoints.Here("relay.marked")
	return nil
}

// say logs when relaying begins to fail and when it works again.
func (r *Relay) say(ctx context.Context, lane int, err error) {
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
