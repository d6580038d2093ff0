package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/events"
)

// Streams created by deadman.
const (
	AlertsStream = "DEADMAN_ALERTS"
	EventsStream = "DEADMAN_EVENTS"

	alertSubjects = "deadman.alerts.>"
)

const (
	keepAlerts        = 30 * 24 * time.Hour
	keepEvents        = 7 * 24 * time.Hour
	replicas          = 3                     // of a new stream in a cluster
	metaWantsReplicas = "deadman-owes-copies" // metadata key of a stream with too few copies
)

// alertsConfig returns the configuration of the stream of alerts. A full stream refuses new alerts. They then wait in
// the database instead of replacing unread ones.
func (o Options) alertsConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: AlertsStream, Description: "What deadman said",
		Subjects: []string{alertSubjects}, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardNew, MaxAge: keepAlerts, MaxBytes: o.AlertsBytes,
		Storage: jetstream.FileStorage, Duplicates: o.Window,
		AllowDirect: true, AllowAtomicPublish: true,
	}
}

// eventsConfig returns the configuration of the stream of events that no other stream takes in. A full stream deletes
// its oldest events, which usually were read long ago. Refusing new events would let one publisher silence all
// others, and publishers over NATS that wait for no answer would not notice.
func (o Options) eventsConfig(subjects []string, most int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: EventsStream, Description: "Events that deadman's rules listen to",
		Subjects: subjects, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardOld, MaxAge: keepEvents, MaxBytes: most,
		Storage: jetstream.FileStorage, Duplicates: o.Window, AllowDirect: true,
	}
}

// ensureAlerts creates the stream of alerts unless it exists, and reports whether it did. An existing stream keeps
// its operator's limits.
func (b *Bus) ensureAlerts(ctx context.Context) (made bool, err error) {
	begun := time.Now()
	_, err = b.js.Stream(ctx, AlertsStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = b.create(ctx, b.opts.alertsConfig())
		made = err == nil
	}
	if err == nil {
		err = b.replicate(ctx)
	}
	if err == nil || errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node may have created it first
		err = b.configureAlerts(ctx)
	}
	err = b.denied.explain(err, begun, streamAPI("*", AlertsStream))
	switch {
	case err == nil:
		return made, nil
	case isCode(err, codeStorageExceeded):
		return made, fmt.Errorf("create stream %s: %w; it reserves %d bytes: free disk space, or set a smaller cap (alerts_bytes)", AlertsStream, err, b.opts.AlertsBytes)
	case unready(err):
		return made, fmt.Errorf("%w: JetStream does not answer: %w; enable JetStream, or wait until the cluster has a leader", ErrUnreachable, err)
	case errors.Is(err, events.ErrGone): // the server lags behind the leader that created it for another node
		return made, fmt.Errorf("%w: not every server of the cluster knows stream %s yet: %w", ErrUnreachable, AlertsStream, err)
	}
	return made, fmt.Errorf("open stream %s: %w", AlertsStream, err)
}

// configureAlerts enables batches on the stream of alerts if the server supports them, and records the configuration.
// Without batches alerts are published one by one.
func (b *Bus) configureAlerts(ctx context.Context) error {
	info, err := b.ask(ctx, AlertsStream)
	if err != nil {
		return err
	}
	if cfg := info.Config; !cfg.AllowAtomicPublish {
		cfg.AllowAtomicPublish = true
		begun := time.Now()
		if s, err := b.js.UpdateStream(ctx, cfg); err == nil {
			info = s.CachedInfo()
		} else {
			b.log.Info("the stream of alerts takes no batches; alerts go one by one, which is slower",
				"stream", AlertsStream, "err", b.denied.explain(err, begun, streamAPI("UPDATE", AlertsStream)))
		}
	}
	b.noteStreamConfig(info)
	b.filling.mu.Lock()
	defer b.filling.mu.Unlock()
	b.fill(info)
	return nil
}

// noteStreamConfig records the configuration that publishing depends on.
func (b *Bus) noteStreamConfig(info *jetstream.StreamInfo) {
	b.batches.Store(info.Config.AllowAtomicPublish)
	b.msgLimit.Store(int64(info.Config.MaxMsgSize))
}

// unready reports whether JetStream may answer later.
func unready(err error) bool {
	return errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded) ||
		isCode(err, codeNotAvailable)
}

// create creates a stream, replicated if the cluster has enough servers. A stream with a single copy for lack of
// servers records that in its metadata.
func (b *Bus) create(ctx context.Context, cfg jetstream.StreamConfig) error {
	cfg.Replicas = 1
	if b.clustered() {
		cfg.Replicas = replicas
	}
	_, err := b.js.CreateStream(ctx, cfg)
	if cfg.Replicas > 1 && errTooFewServers(err) {
		b.log.Warn("too few NATS servers to replicate a stream; it has one copy until a node starts when there are enough", "stream", cfg.Name, "wanted", replicas)
		cfg.Replicas, cfg.Metadata = 1, map[string]string{metaWantsReplicas: "true"}
		_, err = b.js.CreateStream(ctx, cfg)
	}
	return err
}

func (b *Bus) clustered() bool { return b.nc.ConnectedClusterName() != "" }

func errTooFewServers(err error) bool { return isCode(err, codeNoPeers, codeReplicasNotServed) }

// replicate adds the missing copies of streams that were created with too few servers.
func (b *Bus) replicate(ctx context.Context) error {
	if !b.clustered() {
		return nil
	}
	for _, name := range []string{AlertsStream, EventsStream} {
		if err := b.addReplicas(ctx, name); err != nil {
			return fmt.Errorf("replicate stream %s: %w", name, err)
		}
	}
	return nil
}

func (b *Bus) addReplicas(ctx context.Context, name string) error {
	s, err := b.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && s.CachedInfo().Config.Metadata[metaWantsReplicas] == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if name == EventsStream {
		unlock, err := b.lockEvents(ctx)
		if err != nil {
			return err
		}
		defer unlock()
		if s, err = b.js.Stream(ctx, name); err != nil {
			return err
		}
	}
	cfg := s.CachedInfo().Config
	delete(cfg.Metadata, metaWantsReplicas)
	cfg.Replicas = replicas
	if _, err = b.js.UpdateStream(ctx, cfg); errTooFewServers(err) {
		return nil // retried at the next start
	}
	return err
}
