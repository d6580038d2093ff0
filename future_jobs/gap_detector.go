package futurejobs

import (
	"context"
	"log/slog"
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
	store GapStore
	node  string
	local func() time.Time
	log   *slog.Logger

	missed atomic.Bool // a ping could not be stored

	turn      chan struct{} // taken by the call that reads or changes the fields below, also while it asks the database
	startedAt time.Time     // by the database's time; zero: the database has not answered yet
	swept     bool          // checkStart has checked for other nodes
	ran       time.Time     // when the process was last known to run, by the local clock
	awake     time.Time     // since when the process has run, by the local clock
	answered  time.Time     // when the last answered query was sent to the database, by the local clock
	dbTime    time.Time     // the database's last answer; zero: none yet
	hasGap    bool          // a gap is not recorded yet
}

// NewGapDetector returns the detector of a node that starts to receive pings now. local is a monotonic clock.
func NewGapDetector(e GapStore, node string, local func() time.Time, log *slog.Logger) *GapDetector {
	now := local()
	return &GapDetector{turn: make(chan struct{}, 1), store: e, node: node, local: local, log: log, ran: now, awake: now, answered: now}
}

// Run checks twice a second until ctx ends.
func (d *GapDetector) Run(ctx context.Context) error {
	tick := time.NewTicker(gapCheckInterval)
	defer tick.Stop()
	for {
		d.poll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Flush returns once a gap up to now is recorded. On an error, a gap may be unrecorded.
func (d *GapDetector) Flush(ctx context.Context) error {
	if err := d.take(ctx); err != nil {
		return err
	}
	defer d.release()
	d.noteRunning()
	if err := d.checkStart(ctx); err != nil {
		return err
	}
	return d.record(ctx)
}

// MarkMissed reports a ping that could not be stored.
func (d *GapDetector) MarkMissed() { d.missed.Store(true) }

// Uptime returns how long the process has run without standing still.
func (d *GapDetector) Uptime() time.Duration {
	_ = d.take(context.Background()) // it does not end
	defer d.release()
	d.noteRunning()
	return d.local().Sub(d.awake)
}

// take waits for the turn until ctx ends.
func (d *GapDetector) take(ctx context.Context) error {
	select {
	case d.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *GapDetector) release() { <-d.turn }

// noteRunning records that the process runs, and detects a standstill before now. The first caller afterwards detects
// it.
func (d *GapDetector) noteRunning() {
	now := d.local()
	if now.Sub(d.ran) > gapThreshold {
		d.awake = now
	}
	d.hasGap = d.hasGap || now.Sub(d.answered) > gapThreshold // a process that stood still received no answer
	d.ran = now
}

// poll queries the database, and records a gap if one was detected.
func (d *GapDetector) poll(ctx context.Context) {
	if d.take(ctx) != nil {
		return
	}
	d.noteRunning()
	d.release()

	sentAt := d.local()
	within, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	now, err := d.store.Now(within)

	if d.take(ctx) != nil {
		return
	}
	defer d.release()
	d.noteRunning()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		d.hasGap = true // pings received meanwhile were not stored either
		return
	case d.startedAt.IsZero():
		d.startedAt = now
	case now.Sub(d.dbTime)-sentAt.Sub(d.answered) > gapThreshold: // the local clock of a suspended machine does not advance
		d.hasGap = true
	}
	d.answered, d.dbTime = sentAt, now
	if !d.swept {
		return
	}
	if err := d.record(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("recording a ping gap failed; heartbeat checks are suspended until it succeeds", "err", err)
	}
}

// checkStart checks whether another node received pings before this node started. A node seen alive after the start of
// this one covers the time before it.
func (d *GapDetector) checkStart(ctx context.Context) error {
	if d.swept {
		return nil
	}
	if d.startedAt.IsZero() {
		now, err := d.store.Now(ctx)
		if err != nil {
			return err
		}
		d.startedAt = now
	}
	others, err := d.store.OtherNodeAlive(ctx, d.node, d.startedAt)
	if err != nil {
		return err
	}
	d.hasGap = d.hasGap || !others
	d.swept = true
	return nil
}

// record records a pending gap.
func (d *GapDetector) record(ctx context.Context) error {
	d.hasGap = d.missed.Swap(false) || d.hasGap
	if !d.hasGap {
		return nil
	}
	sentAt := d.local()
	now, err := d.store.Now(ctx)
	if err != nil {
		return err
	}
	d.answered, d.dbTime = sentAt, now
	if err := d.store.RecordGap(ctx, "", now); err != nil {
		return err
	}
	d.hasGap = false
	d.log.Info("receiving pings; pings may have been missed before, so their jobs restart", "receiving_since", now)
	return nil
}

// clampToNow corrects progress times in the future, set by a wrong clock: the stream counts as not read, and its
// gap-free period starts now.
func clampToNow(through map[string]StreamProgress, now time.Time) {
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
