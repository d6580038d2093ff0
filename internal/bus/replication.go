package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	replicas          = 3                     // of a new stream in a cluster
	metaWantsReplicas = "deadman-owes-copies" // metadata key of a stream with too few copies
)

// replication creates streams with copies on several servers of a cluster.
type replication struct{ conn *Conn }

// leastCap is the smallest limit of a stream that is created on a broker with little storage, in bytes.
const leastCap = 64 << 20

// createWithin creates a stream whose limit in bytes reserves storage at the broker. The limit is halved until the reservation
// fits, so a node on a small disk starts; a smaller limit is logged. setting names the limit in errors.
func (r replication) createWithin(ctx context.Context, wanted int64, setting string, config func(limit int64) jetstream.StreamConfig) error {
	for limit := wanted; ; limit /= 2 {
		cfg := config(limit)
		err := r.create(ctx, cfg)
		switch {
		case err == nil && limit < wanted:
			r.conn.log.Warn("the broker has little room: a stream is smaller than it was to be; free disk space, then raise its max_bytes",
				"stream", cfg.Name, "max_bytes", limit, "wanted", wanted)
			return nil
		case !errTooLittleStorage(err):
			return err
		case limit/2 < leastCap:
			return fmt.Errorf("%w; it reserves %d bytes: free disk space, or set a smaller cap (%s)", err, limit, setting)
		}
	}
}

// create creates a stream, replicated if the cluster has enough servers. A stream with a single copy for lack of
// servers records that in its metadata.
func (r replication) create(ctx context.Context, cfg jetstream.StreamConfig) error {
	cfg.Replicas = 1
	if r.conn.clustered() {
		cfg.Replicas = replicas
	}
	_, err := r.conn.js.CreateStream(ctx, cfg)
	if cfg.Replicas > 1 && errTooFewServers(err) && !errTooLittleStorage(err) {
		r.conn.log.Warn("too few NATS servers to replicate a stream; it has one copy until a node starts when there are enough", "stream", cfg.Name, "wanted", replicas)
		cfg.Replicas, cfg.Metadata = 1, map[string]string{metaWantsReplicas: "true"}
		_, err = r.conn.js.CreateStream(ctx, cfg)
	}
	return err
}

// addReplicas adds the missing copies of a stream that was created with too few servers. lock protects the change; nil:
// no lock is necessary.
func (r replication) addReplicas(ctx context.Context, name string, lock func(context.Context) (unlock func(), err error)) error {
	if !r.conn.clustered() {
		return nil
	}
	s, err := r.conn.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && s.CachedInfo().Config.Metadata[metaWantsReplicas] == "" {
		return nil
	}
	if err != nil {
		return replicateError(name, err)
	}
	if lock != nil {
		unlock, err := lock(ctx)
		if err != nil {
			return replicateError(name, err)
		}
		defer unlock()
		if s, err = r.conn.js.Stream(ctx, name); err != nil {
			return replicateError(name, err)
		}
	}
	cfg := s.CachedInfo().Config
	delete(cfg.Metadata, metaWantsReplicas)
	cfg.Replicas = replicas
	if _, err = r.conn.js.UpdateStream(ctx, cfg); err != nil && !errTooFewServers(err) { // retried at the next start
		return replicateError(name, err)
	}
	return nil
}

func replicateError(name string, err error) error {
	return fmt.Errorf("replicate stream %s: %w", name, err)
}

// errTooLittleStorage reports whether servers have too little storage for a stream: a single server has an error code for the
// case, a cluster names storage among the reasons that no server is suitable.
func errTooLittleStorage(err error) bool {
	return isCode(err, codeStorageExceeded) || isCode(err, codeNoPeers) && strings.Contains(err.Error(), "insufficient storage")
}

func errTooFewServers(err error) bool { return isCode(err, codeNoPeers, codeReplicasNotServed) }
