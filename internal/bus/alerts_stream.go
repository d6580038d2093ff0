package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/events"
	"deadman/internal/periodic"
)

// Streams created by deadman, with their names without a namespace.
const (
	AlertsStream = "DEADMAN_ALERTS"
	EventsStream = "DEADMAN_EVENTS"

	AlertsTopic = "stream/" + AlertsStream // topic of alerts about the stream of alerts, without a namespace

	alertSubjects = "deadman.alerts.>" // without a namespace
)

// Intervals and thresholds of maintaining the stream of alerts.
const (
	keepEvery  = 3 * time.Second // short enough that all nodes detect a problem within one lease
	keepAgain  = time.Second     // after a failed check
	fillsUp    = 0.8             // share of its limits that is logged
	fillsAgain = 0.75            // share below which it may be logged again
)

// StreamOfAlerts maintains the stream DEADMAN_ALERTS.
type StreamOfAlerts struct {
	conn        *Conn
	streams     *Streams
	replication replication
	events      *StreamOfEvents

	batches  atomic.Bool            // the stream accepts batches
	msgLimit atomic.Int64           // largest message of the stream; 0 or less: unlimited
	claimed  atomic.Pointer[string] // id of the database; nil: not known yet
	usage    streamUsage
}

// Name returns the name of the stream.
func (a *StreamOfAlerts) Name() string { return a.conn.opts.alertsStream() }

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

// ensure creates the stream of alerts unless it exists, and reports whether it did. An existing stream keeps its
// operator's limits.
func (a *StreamOfAlerts) ensure(ctx context.Context) (made bool, err error) {
	begun := time.Now()
	_, err = a.conn.js.Stream(ctx, a.Name())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = a.create(ctx)
		made = err == nil
	}
	if err == nil {
		err = a.replicate(ctx)
	}
	if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node may have created it first
		err = a.configure(ctx)
	}
	err = a.conn.denied.explain(err, begun, streamAPI("*", a.Name()))
	switch {
	case err == nil:
		return made, nil
	case errTooLittleStorage(err):
		return made, fmt.Errorf("create stream %s: %w", a.Name(), err)
	case unready(err):
		return made, fmt.Errorf("%w: JetStream does not answer: %w; enable JetStream, or wait until the cluster has a leader", ErrUnreachable, err)
	case errors.Is(err, events.ErrGone): // the server lags behind the leader that created it for another node
		return made, fmt.Errorf("%w: not every server of the cluster knows stream %s yet: %w", ErrUnreachable, a.Name(), err)
	}
	return made, fmt.Errorf("open stream %s: %w", a.Name(), err)
}

// create creates the stream. It reserves a quarter more storage for a moment, which is left for the stream of events.
func (a *StreamOfAlerts) create(ctx context.Context) error {
	id, err := a.claim(ctx, "")
	if err != nil {
		return err
	}
	var reserved int64
	err = a.replication.createWithin(ctx, a.conn.opts.AlertsBytes, "alerts_bytes", func(limit int64) jetstream.StreamConfig {
		reserved = limit
		return marked(a.conn.opts.alertsConfig(limit+limit/4), id)
	})
	if err != nil {
		return err
	}
	info, err := a.streams.fetchInfo(ctx, a.Name())
	if err != nil {
		return err
	}
	cfg := info.Config
	cfg.MaxBytes = reserved
	begun := time.Now()
	if _, err := a.conn.js.UpdateStream(ctx, cfg); err != nil { // without the permission, the stream stays as it is
		a.conn.log.Warn("the stream of alerts reserves a quarter more than its limit; set its max_bytes",
			"stream", a.Name(), "max_bytes", reserved, "err", a.conn.denied.explain(err, begun, streamAPI("UPDATE", a.Name())))
	}
	return nil
}

// replicate adds the missing copies of both streams.
func (a *StreamOfAlerts) replicate(ctx context.Context) error {
	if err := a.replication.addReplicas(ctx, a.Name(), nil); err != nil {
		return err
	}
	return a.events.replicate(ctx)
}

// DatabaseMark is the key of the stream's metadata with the id of the database whose alerts it has.
const DatabaseMark = "deadman_database"

// claim returns the id of the database, to mark the stream with. The error is ErrForeignStream if the present mark is of
// another database. Without Options.Claim the result is the mark.
func (a *StreamOfAlerts) claim(ctx context.Context, mark string) (id string, err error) {
	if a.conn.opts.Claim == nil {
		return mark, nil
	}
	if known := a.claimed.Load(); known != nil {
		id = *known
	} else if id, err = a.conn.opts.Claim(ctx, mark); err != nil {
		return "", err
	}
	if mark != "" && mark != id {
		return "", fmt.Errorf("%w: the alerts of stream %s are of the database with the id %s, and this database has the id %s; two deployments in one stream would close each "+
			"other's alerts. Give this one a namespace (DEADMAN_NAMESPACE) or a NATS account of its own. If this database replaces the other one for good, run "+
			"nats stream edit %s --metadata %s=%s", ErrForeignStream, a.Name(), mark, id, a.Name(), DatabaseMark, id)
	}
	a.claimed.Store(&id)
	return id, nil
}

// marked returns a configuration with the mark of a database; empty: the configuration as it is.
func marked(cfg jetstream.StreamConfig, id string) jetstream.StreamConfig {
	if id == "" {
		return cfg
	}
	metadata := make(map[string]string)
	maps.Copy(metadata, cfg.Metadata)
	metadata[DatabaseMark] = id
	cfg.Metadata = metadata
	return cfg
}

// configure marks the stream of alerts with the id of the database, enables batches if the server supports them, and records
// the configuration. Without batches alerts are published one by one.
func (a *StreamOfAlerts) configure(ctx context.Context) error {
	info, err := a.streams.fetchInfo(ctx, a.Name())
	if err != nil {
		return err
	}
	id, err := a.claim(ctx, info.Config.Metadata[DatabaseMark])
	if err != nil {
		return err
	}
	if cfg := info.Config; !cfg.AllowAtomicPublish || cfg.Metadata[DatabaseMark] != id {
		cfg = marked(cfg, id)
		cfg.AllowAtomicPublish = true
		begun := time.Now()
		if s, err := a.conn.js.UpdateStream(ctx, cfg); err == nil {
			info = s.CachedInfo()
		} else {
			a.conn.log.Info("the stream of alerts takes no batches or no mark; alerts go one by one, which is slower, and another deployment in the stream is not detected",
				"stream", a.Name(), "err", a.conn.denied.explain(err, begun, streamAPI("UPDATE", a.Name())))
		}
	}
	a.noteConfig(info)
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	a.fill(info)
	return nil
}

// noteConfig records the configuration that publishing depends on.
func (a *StreamOfAlerts) noteConfig(info *jetstream.StreamInfo) {
	a.batches.Store(info.Config.AllowAtomicPublish)
	a.msgLimit.Store(int64(info.Config.MaxMsgSize))
}

// Maintain checks the streams of alerts and events periodically until ctx ends.
func (a *StreamOfAlerts) Maintain(ctx context.Context) error {
	status := periodic.NewStatus(a.conn.log, slog.LevelWarn, "alerts stream check")
	for {
		next := keepEvery
		err := a.Inspect(ctx)
		status.Set(ctx, err)
		if err != nil {
			next = keepAgain
		}
		a.events.Inspect(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
	}
}

// Inspect checks the stream of alerts once. It recreates a deleted stream and applies configuration changes by
// operators. A stream that is nearly full is logged once.
func (a *StreamOfAlerts) Inspect(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	begun := time.Now()
	info, err := a.streams.fetchInfo(ctx, a.Name())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = a.recreate(ctx); err == nil {
			info, err = a.streams.fetchInfo(ctx, a.Name())
		}
	}
	if err == nil {
		_, err = a.claim(ctx, info.Config.Metadata[DatabaseMark])
	}
	err = a.conn.denied.explain(err, begun, streamAPI("*", a.Name()))
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	if a.usage.err = err; err != nil {
		return err
	}
	a.noteConfig(info)
	a.fill(info)
	return nil
}

// fill records the usage of the stream. The caller holds the lock.
func (a *StreamOfAlerts) fill(info *jetstream.StreamInfo) {
	f := &a.usage
	f.madeAt = info.Created.UTC()
	f.cap, f.since = max(0, info.Config.MaxBytes), info.State.FirstTime.UTC()
	if info.State.Msgs == 0 {
		f.since = time.Time{}
	}
	f.share = max(share(info.State.Bytes, info.Config.MaxBytes), share(info.State.Msgs, info.Config.MaxMsgs))
	switch {
	case f.share >= fillsUp && !f.warned:
		f.warned = true
		a.conn.log.Warn("the stream of alerts fills up; once it is full, alerts wait in the database: raise its max_bytes, or purge the alerts that all consumers have read",
			"stream", a.Name(), "full_percent", int(f.share*100), "bytes", info.State.Bytes, "max_bytes", info.Config.MaxBytes)
	case f.share < fillsAgain && f.warned:
		f.warned = false
		a.conn.log.Info("the stream of alerts has room again", "stream", a.Name(), "full_percent", int(f.share*100))
	}
}

// recreate creates the stream of alerts if it was deleted, and logs that.
func (a *StreamOfAlerts) recreate(ctx context.Context) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	made, err := a.ensure(ctx)
	if made {
		a.conn.log.Error("the stream of alerts was deleted and is made again; consumers do not get what was in it unless it is published again, and those of their own have to be made again",
			"stream", a.Name(), "remedy", "deadman alert republish --since 24h, or as far back as they miss it")
	}
	return err
}

// Usage returns the fill level of the stream of alerts at the last check, 1 being full, and the error of that
// check.
func (a *StreamOfAlerts) Usage() (share float64, err error) {
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	return a.usage.share, a.usage.err
}

// Room returns the byte limit of the stream of alerts, 0 being unlimited, and the time of its oldest alert, at the
// last check. The time is zero if the stream is empty or was not checked yet.
func (a *StreamOfAlerts) Room() (limit int64, since time.Time) {
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	return a.usage.cap, a.usage.since
}

// CreatedAt returns the creation time of the stream of alerts at the last successful check, or zero before
// that. A different time means a different stream.
func (a *StreamOfAlerts) CreatedAt() time.Time {
	a.usage.mu.Lock()
	defer a.usage.mu.Unlock()
	return a.usage.madeAt
}

// share returns used as a fraction of a limit. It is 0 if the limit is not over 0.
func share(used uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// unready reports whether JetStream may answer later.
func unready(err error) bool {
	return errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded) ||
		isCode(err, codeNotAvailable)
}
