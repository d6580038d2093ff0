package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/periodic"
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
	send  heartbeatSender
	every time.Duration
	count func(to, outcome string)

	node    futurejobs.Node
	owner   *futurejobs.Owner
	sweeper *futurejobs.Sweeper
	store   *store.Store
	overdue *overdue
	now     func() time.Time // the database's time
	stale   time.Duration    // maximum age of the progress reported by other nodes
	status  *periodic.Status // its error is the reason that the last one was not sent

	mu   sync.Mutex
	sent time.Time // by this node; zero: never
}

// heartbeatSender sends a heartbeat.
type heartbeatSender func(context.Context, Heartbeat) error

// newHeartbeats returns the configured heartbeats.
func newHeartbeats(c Config, m *bus.Messages, create func(to string, send heartbeatSender) *heartbeat) (all []*heartbeat) {
	if c.HeartbeatURL != "" {
		all = append(all, create("http", newHTTPHeartbeat(c.HeartbeatURL).send))
	}
	if c.HeartbeatSubject != "" {
		all = append(all, create("nats", natsHeartbeat{c.HeartbeatSubject, m}.send))
	}
	return all
}

// The counted outcomes.
const (
	heartbeatSent     = "sent"
	heartbeatFailed   = "failed"
	heartbeatWithheld = "withheld"
)

var (
	errSweepStalled   = errors.New("the sweep does not come through")
	errShardsNotSwept = errors.New("other nodes do not sweep their shards")
	errJobsOverdue    = errors.New("jobs that are due are not decided")
)

// withholding are the reasons that a condition may show: other errors may have the name of a host.
var withholding = []error{errSweepStalled, errShardsNotSwept, errJobsOverdue}

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
		h.status.Reset() // another node sends it
		return min(h.every, time.Second)
	}
	beat, err := h.build(ctx)
	if err != nil {
		h.count(h.to, heartbeatWithheld)
		h.status.Set(ctx, fmt.Errorf("withheld: %w", err))
		return min(h.every, withheldRetryInterval)
	}
	sending, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if err := h.send(sending, beat); err != nil {
		if ctx.Err() == nil {
			h.count(h.to, heartbeatFailed)
		}
		h.status.Set(ctx, err)
		return h.every
	}
	h.count(h.to, heartbeatSent)
	h.mu.Lock()
	h.sent = beat.At
	h.mu.Unlock()
	h.status.Set(ctx, nil)
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
	overdueJobs, err := h.overdue.find(ctx)
	if err != nil {
		return Heartbeat{}, err
	}
	if slot := overdueJobs.oldest(); !slot.IsZero() {
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
	ticker := time.NewTicker(sweepPollInterval)
	defer ticker.Stop()
	for {
		if through := h.sweeper.SweptThrough(); !through.Before(from) {
			return through, nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, errSweepStalled
		case <-ticker.C:
		}
	}
}

// condition returns the condition of the heartbeat.
func (h *heartbeat) condition() web.Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	failure := h.status.Err()
	c := web.Condition{Name: "heartbeat", OK: failure == nil}
	switch {
	case !c.OK:
		c.Detail = "the heartbeat to " + h.to + " fails and is retried; see the log"
		if i := slices.IndexFunc(withholding, func(reason error) bool { return errors.Is(failure, reason) }); i >= 0 {
			c.Detail = "the heartbeat to " + h.to + " fails and is retried: " + withholding[i].Error()
		}
	case !h.owner.Holds(progressShard):
		c.Detail = "another node sends the heartbeat to " + h.to
	case h.sent.IsZero():
		c.Detail = "no heartbeat to " + h.to + " was sent yet"
	default:
		c.Detail = "last heartbeat to " + h.to + " at " + h.sent.UTC().Format(time.RFC3339)
	}
	return c
}

func (h Heartbeat) body() ([]byte, error) { return json.Marshal(h) }
