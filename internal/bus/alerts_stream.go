package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Intervals and thresholds of maintaining the stream of alerts.
const (
	keepEvery  = 3 * time.Second // short enough that all nodes detect a problem within one lease
	keepAgain  = time.Second     // after a failed check
	fillsUp    = 0.8             // share of its limits that is logged
	fillsAgain = 0.75            // share below which it may be logged again
)

// streamUsage is the state of the stream of alerts at its last check.
type streamUsage struct {
	mu     sync.Mutex
	share  float64
	madeAt time.Time
	cap    int64     // in bytes; 0: unlimited
	since  time.Time // time of its oldest alert; zero: empty
	err    error
	warned bool
}

// MaintainAlertsStream checks the stream of alerts periodically until ctx ends.
func (b *Bus) MaintainAlertsStream(ctx context.Context) error {
	for {
		next := keepEvery
		if b.InspectAlertsStream(ctx) != nil { // AlertsStreamUsage returns the error
			next = keepAgain
		}
		b.LookAtEvents(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
	}
}

// InspectAlertsStream checks the stream of alerts once. It recreates a deleted stream and applies configuration
// changes by operators. A stream that is nearly full is logged once.
func (b *Bus) InspectAlertsStream(ctx context.Context) error {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	begun := time.Now()
	info, err := b.ask(ctx, AlertsStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = b.recreateAlerts(ctx); err == nil {
			info, err = b.ask(ctx, AlertsStream)
		}
	}
	err = b.denied.explain(err, begun, streamAPI("*", AlertsStream))
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	if b.filling.err = err; err != nil {
		return err
	}
	b.noteStreamConfig(info)
	b.fill(info)
	return nil
}

// fill records the usage of the stream. The caller holds the lock.
func (b *Bus) fill(info *jetstream.StreamInfo) {
	f := &b.filling
	f.madeAt = info.Created.UTC()
	f.cap, f.since = max(0, info.Config.MaxBytes), info.State.FirstTime.UTC()
	if info.State.Msgs == 0 {
		f.since = time.Time{}
	}
	f.share = max(share(info.State.Bytes, info.Config.MaxBytes), share(info.State.Msgs, info.Config.MaxMsgs))
	switch {
	case f.share >= fillsUp && !f.warned:
		f.warned = true
		b.log.Warn("the stream of alerts fills up; once it is full, alerts wait in the database: raise its max_bytes, or purge what everybody has read",
			"stream", AlertsStream, "full_percent", int(f.share*100), "bytes", info.State.Bytes, "max_bytes", info.Config.MaxBytes)
	case f.share < fillsAgain && f.warned:
		f.warned = false
		b.log.Info("the stream of alerts has room again", "stream", AlertsStream, "full_percent", int(f.share*100))
	}
}

// backlog is the state of DEADMAN_EVENTS at its last check.
type backlog struct {
	mu     sync.Mutex
	share  float64
	known  bool
	warned bool
}

// LookAtEvents checks DEADMAN_EVENTS once, if it exists. It logs once if the stream has no limit, as one created by
// an earlier version.
func (b *Bus) LookAtEvents(ctx context.Context) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	info, err := b.ask(ctx, EventsStream)
	b.backlog.mu.Lock()
	defer b.backlog.mu.Unlock()
	l := &b.backlog
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		l.share, l.known = 0, true
		return
	case err != nil: // ingest reports it
		l.known = false
		return
	}
	c := info.Config
	l.share, l.known = max(share(info.State.Bytes, c.MaxBytes), share(info.State.Msgs, c.MaxMsgs)), true
	if c.MaxBytes <= 0 && !l.warned {
		b.log.Warn("the stream of events has no max_bytes, so that one publisher can fill the disk; set one that is larger than what it has",
			"stream", EventsStream, "bytes", info.State.Bytes, "remedy", "nats stream edit "+EventsStream+" --max-bytes 4GiB")
	}
	l.warned = c.MaxBytes <= 0
}

// EventsFilled returns the fill level of DEADMAN_EVENTS at the last check, 1 being full. It is 0 if the stream does
// not exist or has no limit. ok is false if the level is unknown.
func (b *Bus) EventsFilled() (share float64, ok bool) {
	b.backlog.mu.Lock()
	defer b.backlog.mu.Unlock()
	return b.backlog.share, b.backlog.known
}

// share returns used as a fraction of a limit. It is 0 if the limit is not over 0.
func share(used uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// AlertsStreamUsage returns the fill level of the stream of alerts at the last check, 1 being full, and the error of
// that check.
func (b *Bus) AlertsStreamUsage() (share float64, err error) {
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	return b.filling.share, b.filling.err
}

// AlertsRoom returns the byte limit of the stream of alerts, 0 being unlimited, and the time of its oldest alert, at
// the last check. The time is zero if the stream is empty or was not checked yet.
func (b *Bus) AlertsRoom() (most int64, since time.Time) {
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	return b.filling.cap, b.filling.since
}

// AlertsStreamCreatedAt returns the creation time of the stream of alerts at the last successful check, or zero
// before that. A different time means a different stream.
func (b *Bus) AlertsStreamCreatedAt() time.Time {
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	return b.filling.madeAt
}

// recreateAlerts creates the stream of alerts if it was deleted, and logs that.
func (b *Bus) recreateAlerts(ctx context.Context) error {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	made, err := b.ensureAlerts(ctx)
	if made {
		b.log.Error("the stream of alerts was deleted and is made again; consumers do not get what was in it unless it is published again, and those of their own have to be made again",
			"stream", AlertsStream, "remedy", "deadman alert republish --since 24h, or as far back as they miss it")
	}
	return err
}
