package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/calendars"
	"deadman/internal/operatorfiles"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/rules"
)

// jobStore creates and changes jobs for events, heartbeats, schedule ticks and rule changes.
type jobStore interface {
	futurejobs.EffectStore
	scheduler.CursorStore
	rules.Jobs
}

// openStore opens the database, retrying while it is unavailable.
func openStore(ctx context.Context, c Config, log *slog.Logger) (*store.Store, error) {
	options := store.Options{DatabaseURL: c.DatabaseURL, DataDir: c.DataDir, Shards: c.Shards, Log: log, Clock: databaseClock(c)}
	var s *store.Store
	open := func() (err error) {
		s, err = store.Open(ctx, options)
		return err
	}
	err := retryWhile(ctx, log, "the schema cannot be migrated yet", func() error {
		return retryWhile(ctx, log, "the database is not there yet", open, store.ErrUnavailable)
	}, store.ErrNodeBehind)
	if err != nil {
		return nil, err
	}
	if s.SingleProcess() && c.NATSURL != "" {
		log.Warn("this node keeps its jobs in its own folder; another one on the same broker would watch everything again (DEADMAN_DATABASE_URL lets them share)")
	}
	if s.SingleProcess() {
		if err := s.Reclaim(ctx); err != nil {
			return s, err
		}
	}
	return s, nil
}

// openServer starts the embedded broker; it returns nil if an external one is configured.
func openServer(c Config, log *slog.Logger) (*bus.Server, error) {
	if c.NATSURL != "" {
		return nil, nil
	}
	return bus.StartServer(bus.ServerOptions{
		Dir: c.natsDir(), Addr: cmp.Or(c.NATSAddr, DefaultNATSAddr), Move: c.NATSAddr == "",
		Users: c.natsUsersDir(), TokenFile: c.NATSToken, Insecure: c.Insecure, Log: log,
	})
}

// openHTTP listens for HTTP, checks the way back of logins, and creates the first token if the node needs one.
func openHTTP(ctx context.Context, n *node) (net.Listener, error) {
	listener, err := listen(n.HTTPAddr, n.log)
	if err != nil {
		return nil, err
	}
	if n.server != nil && !n.server.Loopback() && !n.server.Guarded() {
		n.log.Warn("the embedded NATS server accepts every client that reaches it: it was started with --insecure and without DEADMAN_NATS_TOKEN_FILE", "nats", n.server.ClientURL())
	}
	if err := n.login.checkWayBack(listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if err := n.gate.setup(ctx, listener.Addr()); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// openBus connects to the embedded broker or, if that is nil, to the configured one.
func openBus(ctx context.Context, c Config, embedded *bus.Server, database *store.Store, log *slog.Logger) (b *bus.Bus, err error) {
	options := bus.Options{
		URL: c.NATSURL, Identity: c.Identity(), Name: "deadman", InProcess: embedded,
		Namespace: c.Namespace, PublicURL: c.PublicURL, AlertsBytes: c.AlertsBytes, EventsBytes: c.EventsBytes, Log: log,
	}
	if embedded == nil { // an embedded broker is of this node
		options.Claim = database.DatabaseID
	}
	err = retryWhile(ctx, log, "the broker is not there yet", func() (err error) {
		b, err = bus.Connect(ctx, options)
		return err
	}, bus.ErrUnreachable)
	return b, err
}

// brokerUptime returns a function for the time for which the broker has received messages without interruption. An embedded
// broker stops with its process.
func brokerUptime(n *node) func() time.Duration {
	if n.server == nil {
		return n.bus.Conn.ConnectedFor
	}
	return func() time.Duration { return min(n.bus.Conn.ConnectedFor(), n.gapDetector.Uptime()) }
}

// readCalendars reads a calendars file; without one it returns none.
func readCalendars(file string) (calendars.Set, error) {
	if file == "" {
		return calendars.Set{}, nil
	}
	data, err := operatorfiles.Read(file)
	if err != nil {
		return nil, fmt.Errorf("calendars: %w (--calendars names a file)", err)
	}
	known, err := calendars.Parse(data, file)
	if err != nil {
		return nil, fmt.Errorf("calendars: %w", err)
	}
	return known, nil
}

// startRetryInterval is the interval at which a starting node retries an unavailable database or broker.
const startRetryInterval = 2 * time.Second

// msgDatabaseLost is logged while a starting node retries a lost database.
const msgDatabaseLost = "the database is not there any more"

// retryWhile retries until try succeeds, fails with an error other than the passing ones, or ctx ends.
func retryWhile(ctx context.Context, log *slog.Logger, waiting string, try func() error, passing ...error) error {
	for {
		err := try()
		if !slices.ContainsFunc(passing, func(reason error) bool { return errors.Is(err, reason) }) {
			return err
		}
		log.Warn(waiting, "again_in", startRetryInterval, "err", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(startRetryInterval):
		}
	}
}
