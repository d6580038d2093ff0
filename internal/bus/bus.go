// Package bus is the wire to NATS: the streams that events come from, the stream that
// alerts go to, and the server inside the process for those who have none.
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
	answerTimeout   = 5 * time.Second  // for one request that has no deadline of its own
	pendingMost     = 16_000           // messages without an answer; one that is denied is among them for answerTimeout
	pingEvery       = 10 * time.Second // a peer that is silent for three of these is gone
	defaultAlertCap = 1 << 30
	defaultEventCap = 4 << 30
	defaultWindow   = 2 * time.Minute
)

// Options say where the broker is.
type Options struct {
	URL       string // one or several, with commas between; not needed with InProcess
	Identity  Identity
	Name      string // how the broker's operator sees this connection
	Log       *slog.Logger
	InProcess *Server // the embedded server, if there is one; URL and Identity are not for it

	PublicURL   string        // what links in alerts begin with; the source of alerts, too
	AlertsBytes int64         // the most that DEADMAN_ALERTS may hold, at its creation; 0: 1 GiB
	EventsBytes int64         // the most that DEADMAN_EVENTS may hold, at its creation; 0: 4 GiB. It is less where the broker has no room
	Window      time.Duration // the duplicate window of new streams; 0: 2 minutes
}

// Bus is a connection to NATS. It is safe for concurrent use.
type Bus struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	log  *slog.Logger
	opts Options

	batches  atomic.Bool  // the stream of alerts takes them
	msgLimit atomic.Int64 // the largest message that it takes; not over 0: any
	pace     pacer
	filling  streamUsage
	backlog  backlog
	denied   denials
	plight   reconnectLog
	foreign  foreign
	up       atomic.Pointer[time.Time] // since when the connection stands; nil: it does not
}

// Conn is the connection, for who asks others by it. It is the Bus's to close.
func (b *Bus) Conn() *nats.Conn { return b.nc }

// Connect connects, and sees to it that DEADMAN_ALERTS is there. It returns ErrUnreachable
// when the broker or its JetStream is not there yet, ErrURL when it never will be, ErrIdentity
// when the files of Options.Identity are of no use, ErrUntrusted when no encrypted connection to
// somebody trusted comes about, and ErrDenied when the broker's user lacks a permission. A
// connection that was made once reconnects for ever, with the files as they are then.
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

// Connected reports whether the broker can be asked at this moment.
func (b *Bus) Connected() bool { return b.nc.IsConnected() }

// ConnectedFor is for how long the connection has stood without a break; 0: it does not. Meanwhile the broker
// was there for others, too.
func (b *Bus) ConnectedFor() time.Duration {
	if since := b.up.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// noteConnected notes that the connection stands from now on.
func (b *Bus) noteConnected() {
	now := time.Now()
	b.up.Store(&now)
}

// Close ends the connection. What waits for an answer fails.
func (b *Bus) Close() { b.nc.Close() }

// withTimeout bounds a request that has no deadline.
func (b *Bus) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerTimeout)
}
