package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// How the stream of alerts is looked after.
const (
	keepEvery  = 3 * time.Second // so that all nodes find within one lease what ails them all
	keepAgain  = time.Second     // after a look that failed
	fillsUp    = 0.8             // of its limits: time to say so
	fillsAgain = 0.75            // below this, it can fill up again
)

// streamUsage is what the stream of alerts was like when it was looked at.
type streamUsage struct {
	mu     sync.Mutex
	share  float64
	madeAt time.Time
	cap    int64     // in bytes; 0: none
	since  time.Time // when the stream took in the oldest alert that it has; zero: it has none
	err    error
	warned bool
}

// MaintainAlertsStream looks after the stream of alerts until ctx ends.
func (b *Bus) MaintainAlertsStream(ctx context.Context) error {
	for {
		next := keepEvery
		if b.InspectAlertsStream(ctx) != nil { // Filled has why
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

// InspectAlertsStream looks at the stream of alerts once. It is made again if it is gone, and what an
// operator changed counts from now on. That it fills up is logged once.
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

// fill takes in how full the stream is. The caller holds the lock.
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

// backlog is what DEADMAN_EVENTS was like when it was looked at.
type backlog struct {
	mu     sync.Mutex
	share  float64
	known  bool
	warned bool
}

// LookAtEvents looks at DEADMAN_EVENTS once, if there is one. That nothing bounds it is logged once: a node of an earlier version made it.
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
	case err != nil: // intake says so
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

// EventsFilled returns how full DEADMAN_EVENTS is, 1 being full, as of the last look; 0: there is none, or nothing bounds it. ok is false
// where that is not known.
func (b *Bus) EventsFilled() (share float64, ok bool) {
	b.backlog.mu.Lock()
	defer b.backlog.mu.Unlock()
	return b.backlog.share, b.backlog.known
}

// share is used as a part of a limit; there is none if it is not over 0.
func share(used uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// AlertsStreamUsage returns how full the stream of alerts is, 1 being full, as of the last look, and
// why it could not be looked at.
func (b *Bus) AlertsStreamUsage() (share float64, err error) {
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	return b.filling.share, b.filling.err
}

// AlertsRoom returns the most bytes that the stream of alerts may have, 0 being any number, and when it took in the oldest alert that it
// has, as of the last look. Zero: it has none, or was not looked at yet.
func (b *Bus) AlertsRoom() (most int64, since time.Time) {
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	return b.filling.cap, b.filling.since
}

// AlertsStreamCreatedAt returns when the stream of alerts was made, as of the last look that found it;
// zero: there was none yet. Another time means that it is another stream.
func (b *Bus) AlertsStreamCreatedAt() time.Time {
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	return b.filling.madeAt
}

// recreateAlerts makes the stream of alerts again if it is gone.
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
