package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/web"
)

// The timing of heartbeats.
const (
	minHeartbeatInterval  = time.Second      // between two heartbeats
	heartbeatTimeout      = 10 * time.Second // for the sweep, and for the delivery
	withheldRetryInterval = 5 * time.Second  // until a withheld heartbeat is retried
	sweepPollInterval     = 50 * time.Millisecond
)

// Heartbeat is the body of a heartbeat.
type Heartbeat struct {
	Node         string    `json:"node"` // host and pid
	Version      string    `json:"version"`
	At           time.Time `json:"at"`            // by the database's clock
	SweptThrough time.Time `json:"swept_through"` // all jobs due by then, in all shards, were read
	LagSeconds   float64   `json:"lag_seconds"`   // age of the oldest overdue job
}

// heartbeat tells an external monitor that all shards are being swept. It stops as soon as they are not, for any
// reason. One node sends it for all: the holder of progressShard.
type heartbeat struct {
	to    string // its name in the log, at /readyz and in metrics
	send  func(context.Context, Heartbeat) error
	every time.Duration
	count func(to, outcome string)

	node    futurejobs.Node
	owner   *futurejobs.Owner
	sweeper *futurejobs.Sweeper
	store   *store.Store
	overdue *overdue
	now     func() time.Time // the database's time
	stale   time.Duration    // maximum age of the progress reported by other nodes
	log     *slog.Logger

	mu   sync.Mutex
	sent time.Time // by this node; zero: never
	err  error     // reason that the last one was not sent; nil: it was sent
}

// heartbeats returns the configured heartbeats.
func (n *node) heartbeats(self futurejobs.Node) (all []*heartbeat) {
	add := func(to string, send func(context.Context, Heartbeat) error) {
		all = append(all, &heartbeat{
			to: to, send: send, every: n.HeartbeatEvery, count: n.metrics.Beat,
			node: self, owner: n.owner, sweeper: n.sweeper, store: n.store, overdue: n.overdue, now: n.clock.Now,
			stale: futurejobs.MaxIdle + n.Lease/3 + heartbeatTimeout, log: n.log,
		})
	}
	if n.HeartbeatURL != "" {
		add("http", newHTTPHeartbeat(n.HeartbeatURL).send)
	}
	if n.HeartbeatSubject != "" {
		add("nats", natsHeartbeat{n.HeartbeatSubject, n.bus}.send)
	}
	return all
}

// The counted outcomes.
const (
	beatSent     = "sent"
	beatFailed   = "failed"
	beatWithheld = "withheld"
)

var (
	errSweepStalled   = errors.New("the sweep does not come through")
	errShardsNotSwept = errors.New("other nodes do not sweep their shards")
	errJobsOverdue    = errors.New("jobs that are due are not decided")
)

// Run sends heartbeats until ctx ends.
func (h *heartbeat) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		begun := time.Now()
		again := h.sendIfDue(ctx)
		timer.Reset(max(again-time.Since(begun), 0))
	}
}

// sendIfDue sends a heartbeat if this node is the sender, and returns the delay to the next call.
func (h *heartbeat) sendIfDue(ctx context.Context) (again time.Duration) {
	if !h.owner.Holds(progressShard) {
		h.setErr(ctx, nil)
		return min(h.every, time.Second)
	}
	beat, err := h.build(ctx)
	if err != nil {
		h.count(h.to, beatWithheld)
		h.setErr(ctx, fmt.Errorf("withheld: %w", err))
		return min(h.every, withheldRetryInterval)
	}
	sending, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if err := h.send(sending, beat); err != nil {
		if ctx.Err() == nil {
			h.count(h.to, beatFailed)
		}
		h.setErr(ctx, err)
		return h.every
	}
	h.count(h.to, beatSent)
	h.mu.Lock()
	h.sent = beat.At
	h.mu.Unlock()
	h.setErr(ctx, nil)
	return h.every
}

// build returns the heartbeat if all conditions hold:
//
//  1. A sweep requested now completes.
//  2. The other nodes have swept their shards within the longest pause of a sweep.
//  3. No due job is overdue.
func (h *heartbeat) build(ctx context.Context) (Heartbeat, error) {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	through, err := h.waitForSweep(ctx, h.now())
	if err != nil {
		return Heartbeat{}, err
	}
	others, whole, err := h.store.SweptByOthers(ctx, h.node.ID)
	if err != nil {
		return Heartbeat{}, err
	}
	now := h.now()
	if !whole || !others.IsZero() && now.Sub(others) > h.stale {
		return Heartbeat{}, errShardsNotSwept
	}
	if !others.IsZero() && others.Before(through) {
		through = others
	}
	beat := Heartbeat{Node: h.node.Name, Version: h.node.Version, At: now, SweptThrough: through}
	late, err := h.overdue.look(ctx)
	if err != nil {
		return Heartbeat{}, err
	}
	if slot := late.oldest(); !slot.IsZero() {
		return Heartbeat{}, fmt.Errorf("%w for %s", errJobsOverdue, now.Sub(slot).Round(time.Second))
	}
	oldest, err := h.store.OldestDue(ctx)
	if err != nil {
		return Heartbeat{}, err
	}
	if !oldest.IsZero() {
		beat.LagSeconds = max(now.Sub(oldest), 0).Seconds()
	}
	return beat, nil
}

// waitForSweep requests a sweep and blocks until a sweep that began at or after the given time completes.
func (h *heartbeat) waitForSweep(ctx context.Context, from time.Time) (time.Time, error) {
	h.sweeper.Wake()
	look := time.NewTicker(sweepPollInterval)
	defer look.Stop()
	for {
		if through := h.sweeper.SweptThrough(); !through.Before(from) {
			return through, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, errSweepStalled
		case <-look.C:
		}
	}
}

// setErr records the last error, and logs the beginning and the end of failures.
func (h *heartbeat) setErr(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	before := h.err
	h.err = err
	h.mu.Unlock()
	switch {
	case err != nil && before == nil:
		h.log.Warn("the heartbeat does not go out; trying again", "to", h.to, "err", err)
	case err == nil && before != nil:
		h.log.Info("the heartbeat goes out again", "to", h.to)
	}
}

// condition returns the condition of the heartbeat.
func (h *heartbeat) condition() web.Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := web.Condition{Name: "heartbeat", OK: h.err == nil}
	switch {
	case h.err != nil:
		c.Detail = "the heartbeat over " + h.to + " does not go out; trying again"
	case !h.owner.Holds(progressShard):
		c.Detail = "another node sends the heartbeat over " + h.to
	case h.sent.IsZero():
		c.Detail = "no heartbeat went out over " + h.to + " yet"
	default:
		c.Detail = "the last heartbeat went out over " + h.to + " at " + h.sent.UTC().Format(time.RFC3339)
	}
	return c
}

func (h Heartbeat) body() ([]byte, error) { return json.Marshal(h) }
