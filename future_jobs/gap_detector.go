package futurejobs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Parameters of gap detection.
const (
	// gapCheckInterval is shorter than the pause of the sweep after a jump of the database's clock.
	gapCheckInterval = maxClockJump / 2
	// gapThreshold is how long the process may stand still, or the database not answer, before that counts as a gap:
	// senders of pings wait no longer.
	gapThreshold = 3 * time.Second
	dbTimeout    = 2 * time.Second
)

// GapStore records since when heartbeats have been received without a gap. Implementations are safe for concurrent
// use.
type GapStore interface {
	// RecordGap records that a topic, a stream or "" for pings, was received without gaps only since the given time.
	RecordGap(ctx context.Context, topic string, since time.Time) error
	// OtherNodeAlive reports whether another node than this one was alive after the given time.
	OtherNodeAlive(ctx context.Context, node string, since time.Time) (bool, error)
	// Now returns the database's time.
	Now(ctx context.Context) (time.Time, error)
}

// GapDetector detects times in which this node could not receive pings, and records them before heartbeats are
// checked: before the first sweep, unless another node received pings meanwhile; after the process stood still; after
// the database was unreachable. It is safe for concurrent use.
type GapDetector struct {
	ears  GapStore
	node  string
	local func() time.Time
	log   *slog.Logger

	missed atomic.Bool // a ping could not be stored

	mu       sync.Mutex
	began    time.Time // by the database's time; zero: the database has not answered yet
	swept    bool      // begin has checked for other nodes
	ran      time.Time // when the process was last known to run, by the local clock
	awake    time.Time // since when the process has run, by the local clock
	answered time.Time // when the last answered query was sent to the database, by the local clock
	told     time.Time // the database's last answer; zero: none yet
	deaf     bool      // a gap is not recorded yet
}

// NewGapDetector returns the detector of a node that starts to receive pings now. local is a monotonic clock.
func NewGapDetector(e GapStore, node string, local func() time.Time, log *slog.Logger) *GapDetector {
	now := local()
	return &GapDetector{ears: e, node: node, local: local, log: log, ran: now, awake: now, answered: now}
}

// Run checks twice a second until ctx ends.
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

// Flush returns once a gap up to now is recorded. On an error, a gap may be unrecorded.
func (h *GapDetector) Flush(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteRunning()
	if err := h.begin(ctx); err != nil {
		return err
	}
	return h.record(ctx)
}

// MarkMissed reports a ping that could not be stored.
func (h *GapDetector) MarkMissed() { h.missed.Store(true) }

// Uptime returns how long the process has run without standing still.
func (h *GapDetector) Uptime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteRunning()
	return h.local().Sub(h.awake)
}

// noteRunning records that the process runs, and detects a standstill before now. The first caller afterwards detects
// it.
func (h *GapDetector) noteRunning() {
	now := h.local()
	if now.Sub(h.ran) > gapThreshold {
		h.awake = now
	}
	h.deaf = h.deaf || now.Sub(h.answered) > gapThreshold // a process that stood still received no answer
	h.ran = now
}

// poll queries the database, and records a gap if one was detected.
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
		h.deaf = true // pings received meanwhile were not stored either
		return
	case h.began.IsZero():
		h.began = now
	case now.Sub(h.told)-asked.Sub(h.answered) > gapThreshold: // the local clock of a suspended machine does not advance
		h.deaf = true
	}
	h.answered, h.told = asked, now
	if !h.swept {
		return
	}
	if err := h.record(ctx); err != nil && ctx.Err() == nil {
		h.log.Warn("recording a ping gap failed; heartbeat checks are suspended until it succeeds", "err", err)
	}
}

// begin checks whether another node received pings before this node started. A node seen alive after the start of
// this one covers the time before it.
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

// record records a pending gap.
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
	h.log.Info("receiving pings; pings may have been missed before, so their jobs restart", "receiving_since", now)
	return nil
}

// present corrects progress times in the future, set by a wrong clock: the stream counts as not read, and its
// gap-free period starts now.
func present(through map[string]StreamProgress, now time.Time) {
	for stream, r := range through {
		if r.Through.Sub(now) > 2*maxClockJump {
			r.Through = time.Time{}
		}
		if r.ReceivingSince.Sub(now) > 2*maxClockJump {
			r.ReceivingSince = now
		}
		through[stream] = r
	}
}
