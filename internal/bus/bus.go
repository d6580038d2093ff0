// Package bus connects deadman to NATS: the streams of events, the stream of alerts, and an embedded server for
// installations without one.
package bus

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Settings of the connection.
const (
	dialTimeout     = 2 * time.Second
	reconnectWait   = 500 * time.Millisecond
	answerTimeout   = 5 * time.Second  // timeout of a request without a deadline
	pendingMost     = 16_000           // unanswered messages; a denied one counts for answerTimeout
	pingEvery       = 10 * time.Second // three missed pings end the connection
	defaultAlertCap = 1 << 30
	defaultEventCap = 4 << 30
	defaultWindow   = 2 * time.Minute
)

// Options configure the connection to the broker.
type Options struct {
	URL       string // comma-separated addresses; unused with InProcess
	Identity  Identity
	Name      string // connection name for the broker's operator
	Log       *slog.Logger
	InProcess *Server // embedded server; it replaces URL and Identity

	PublicURL   string        // prefix of links in alerts, and their CloudEvents source
	AlertsBytes int64         // limit of DEADMAN_ALERTS at its creation; 0: 1 GiB
	EventsBytes int64         // limit of DEADMAN_EVENTS at its creation; 0: 4 GiB. Less if the broker lacks storage
	Window      time.Duration // duplicate window of new streams; 0: 2 minutes
}

// Bus is a connection to NATS. It is safe for concurrent use.
type Bus struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	log  *slog.Logger
	opts Options

	batches  atomic.Bool  // the stream of alerts accepts batches
	msgLimit atomic.Int64 // largest message of the stream of alerts; 0 or less: unlimited
	pace     pacer
	filling  streamUsage
	backlog  backlog
	denied   denials
	plight   reconnectLog
	foreign  foreign
	up       atomic.Pointer[time.Time] // start of the current connection; nil: disconnected
}

// Conn returns the connection for other requests. The Bus closes it.
func (b *Bus) Conn() *nats.Conn { return b.nc }

// Connect connects to the broker and ensures that DEADMAN_ALERTS exists. It returns ErrUnreachable if the broker or
// its JetStream is not ready yet, ErrURL for an invalid address, ErrIdentity for unusable files in Options.Identity,
// ErrUntrusted if no trusted encrypted connection is possible, and ErrDenied if the broker's user lacks a permission.
// An established connection reconnects forever, with the current content of the files.
func Connect(ctx context.Context, o Options) (*Bus, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.AlertsBytes == 0 {
		o.AlertsBytes = defaultAlertCap
	}
	if o.EventsBytes == 0 {
		o.EventsBytes = defaultEventCap
	}
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	b := &Bus{log: o.Log, opts: o}
	if err := b.dial(); err != nil {
		return nil, err
	}
	if _, err := b.ensureAlerts(ctx); err != nil {
		b.nc.Close()
		return nil, err
	}
	return b, nil
}

// Connected reports whether the connection is established.
func (b *Bus) Connected() bool { return b.nc.IsConnected() }

// ConnectedFor returns the duration of the current connection, or 0 if disconnected. The broker was reachable for
// other clients during that time, too.
func (b *Bus) ConnectedFor() time.Duration {
	if since := b.up.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// noteConnected records the start of the current connection.
func (b *Bus) noteConnected() {
	now := time.Now()
	b.up.Store(&now)
}

// Close closes the connection. Pending requests fail.
func (b *Bus) Close() { b.nc.Close() }

// withTimeout sets a timeout for a request without a deadline.
func (b *Bus) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerTimeout)
}
