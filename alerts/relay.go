package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"deadman/internal/failpoints"
	"deadman/internal/periodic"
)

// The concurrency and timing of a relay.
const (
	relayWorkers      = 4 // while one worker blocks on the stream, others read and mark
	relayBatch        = 1000
	relayPollInterval = time.Second
	relayBackoff      = 100 * time.Millisecond // after the first failure; doubled with each
	relayMaxBackoff   = 10 * time.Second       // upper limit of the backoff
	relayRefusalRetry = time.Second            // after the first rejection of an alert; doubled up to relayMaxBackoff
	relayMarkTimeout  = 5 * time.Second        // to mark published alerts on shutdown
)

// Relay publishes decided alerts to the stream. It marks a row after the stream acknowledged its alert, so a crash in
// between repeats the publication, and the stream rejects the duplicate. Shards are spread over concurrent workers. A
// job belongs to one shard, so its alerts stay in order.
type Relay struct {
	// Quotas select the alerts to publish. Set before Run; nil admits all.
	Quotas Quotas

	outbox    Outbox
	publisher Publisher
	shards    func() []int16
	log       *slog.Logger
	workers   [relayWorkers]relayWorker
	all       relayWorker // used by Step

	status *periodic.Status // of all workers
	mu     sync.Mutex
	failed [relayWorkers]error
}

// NewRelay returns a relay for the outbox. shards returns the shards held at the time of the call.
func NewRelay(o Outbox, p Publisher, shards func() []int16, log *slog.Logger) *Relay {
	r := &Relay{outbox: o, publisher: p, shards: shards, log: log, status: periodic.NewStatus(log, slog.LevelError, "outbox")}
	for i := range r.workers {
		r.workers[i] = relayWorker{Relay: r, number: i, wake: make(chan struct{}, 1)}
	}
	r.all = relayWorker{Relay: r}
	return r
}

// Wake signals new alerts in the outbox. It is only a hint, as the relay also polls.
func (r *Relay) Wake() {
	for i := range r.workers {
		select {
		case r.workers[i].wake <- struct{}{}:
		default:
		}
	}
}

// Err returns the reason if alerts can't be published at the moment, or nil.
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

// Run relays until ctx ends. It retries failures indefinitely.
func (r *Relay) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for i := range r.workers {
		workers.Go(func() { r.workers[i].run(ctx) })
	}
	workers.Wait()
	return nil
}

// Step relays one batch of all held shards. more reports that another batch may follow. Later steps skip rejected
// alerts.
func (r *Relay) Step(ctx context.Context) (more bool, err error) {
	return r.all.step(ctx, r.shards())
}

// mark marks acknowledged alerts as published, even after ctx was cancelled by a shutdown.
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

// setErr records the result of a worker.
func (r *Relay) setErr(ctx context.Context, worker int, err error) {
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[worker] = err
	r.status.Set(ctx, r.err())
}
