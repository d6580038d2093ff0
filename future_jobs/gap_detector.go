package futurejobs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// When a node could not hear.
const (
	// gapCheckInterval is less than the sweep pauses when the database's clock jumped.
	gapCheckInterval = maxClockJump / 2
	// gapThreshold is how long the node may have stood still, or the database not have answered,
	// before it counts: nobody waits longer for a ping to be taken.
	gapThreshold = 3 * time.Second
	dbTimeout    = 2 * time.Second
)

// GapStore is where it stands since when is heard what tells of life. Implementations are safe for
// concurrent use.
type GapStore interface {
	// RecordGap records that what comes by a topic, a stream or "" for pings, is heard since an
	// instant, and was not all the while before.
	RecordGap(ctx context.Context, topic string, since time.Time) error
	// OtherNodeAlive reports whether another node than this was alive after an instant.
	OtherNodeAlive(ctx context.Context, node string, since time.Time) (bool, error)
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)
}

// GapDetector notices when this node could not take pings, and has it recorded before anybody is
// judged by their absence: before its first sweep, unless another node took them meanwhile; after
// the process stood still; after the database could not be reached. It is safe for concurrent use.
type GapDetector struct {
	ears  GapStore
	node  string
	local func() time.Time
	log   *slog.Logger

	missed atomic.Bool // a ping could not be kept

	mu       sync.Mutex
	began    time.Time // by the database's time; zero: it has not answered yet
	swept    bool      // whether somebody else heard before this node did was looked at
	ran      time.Time // when the process was last seen to run, by the local clock
	awake    time.Time // since when it runs, by the local clock
	answered time.Time // when the database was last asked what it answered, by the local clock
	told     time.Time // what it answered; zero: nothing yet
	deaf     bool      // there was a gap that is not recorded
}

// NewGapDetector returns the hearing of a node that begins to listen now. local is a monotonic clock.
func NewGapDetector(e GapStore, node string, local func() time.Time, log *slog.Logger) *GapDetector {
	now := local()
	return &GapDetector{ears: e, node: node, local: local, log: log, ran: now, awake: now, answered: now}
}

// Run looks twice a second until ctx ends.
func (h *GapDetector) Run(ctx context.Context) error {
	tick := time.NewTicker(gapCheckInterval)
	defer tick.Stop()
	for {
		h.poll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Flush returns once a gap until now is recorded. With an error, one is not.
func (h *GapDetector) Flush(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteRunning()
	if err := h.begin(ctx); err != nil {
		return err
	}
	return h.record(ctx)
}

// MarkMissed says that a ping came and could not be kept.
func (h *GapDetector) MarkMissed() { h.missed.Store(true) }

// Uptime is how long the process has run without standing still.
func (h *GapDetector) Uptime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteRunning()
	return h.local().Sub(h.awake)
}

// noteRunning notes that the process runs, and whether it stood still until now. Whoever comes first
// afterwards notices.
func (h *GapDetector) noteRunning() {
	now := h.local()
	if now.Sub(h.ran) > gapThreshold {
		h.awake = now
	}
	h.deaf = h.deaf || now.Sub(h.answered) > gapThreshold // it answers nobody who stands still
	h.ran = now
}

// poll asks the database, and records what was missed.
func (h *GapDetector) poll(ctx context.Context) {
	h.mu.Lock()
	h.noteRunning()
	h.mu.Unlock()

	asked := h.local()
	within, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	now, err := h.ears.Now(within)

	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteRunning()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		h.deaf = true // pings that came meanwhile were not kept either
		return
	case h.began.IsZero():
		h.began = now
	case now.Sub(h.told)-asked.Sub(h.answered) > gapThreshold: // a machine that slept counts no time by its own clock
		h.deaf = true
	}
	h.answered, h.told = asked, now
	if !h.swept {
		return
	}
	if err := h.record(ctx); err != nil && ctx.Err() == nil {
		h.log.Warn("that pings were not heard cannot be written down; nobody is judged until then", "err", err)
	}
}

// begin finds out whether somebody heard before this node did. A node that is seen after this one
// began heard until then.
func (h *GapDetector) begin(ctx context.Context) error {
	if h.swept {
		return nil
	}
	if h.began.IsZero() {
		now, err := h.ears.Now(ctx)
		if err != nil {
			return err
		}
		h.began = now
	}
	others, err := h.ears.OtherNodeAlive(ctx, h.node, h.began)
	if err != nil {
		return err
	}
	h.deaf = h.deaf || !others
	h.swept = true
	return nil
}

// record records a gap, if there was one.
func (h *GapDetector) record(ctx context.Context) error {
	h.deaf = h.missed.Swap(false) || h.deaf
	if !h.deaf {
		return nil
	}
	asked := h.local()
	now, err := h.ears.Now(ctx)
	if err != nil {
		return err
	}
	h.answered, h.told = asked, now
	if err := h.ears.RecordGap(ctx, "", now); err != nil {
		return err
	}
	h.deaf = false
	h.log.Info("pings are heard from now on; some may have been missed before, so waits for them begin anew", "heard_since", now)
	return nil
}

// present takes what readings say of the future for what it is: by a clock that was wrong. A stream is not read
// through it, and what was not heard until then may be heard from now on.
func present(through map[string]StreamProgress, now time.Time) {
	for stream, r := range through {
		if r.Through.Sub(now) > 2*maxClockJump {
			r.Through = time.Time{}
		}
		if r.HeardSince.Sub(now) > 2*maxClockJump {
			r.HeardSince = now
		}
		through[stream] = r
	}
}

// receivingSince is since when all that the rule's beats come by is heard; zero: as far back as
// matters.
func (r *Rule) receivingSince(through map[string]StreamProgress) (since time.Time) {
	for _, topic := range r.BeatStreams {
		since = latest(since, through[topic].HeardSince)
	}
	return since
}
