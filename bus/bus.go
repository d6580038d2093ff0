// Package bus is the wire to NATS: the streams that events come from, the stream that
// alerts go to, and the server inside the process for those who have none.
package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
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
	defaultWindow   = 2 * time.Minute
)

// Options say where the broker is.
type Options struct {
	URL       string // one or several, with commas between; not needed with InProcess
	Creds     string // a credentials file; empty: none
	Name      string // how the broker's operator sees this connection
	Log       *slog.Logger
	InProcess *Server // the embedded server, if there is one

	PublicURL   string        // what links in alerts begin with; the source of alerts, too
	AlertsBytes int64         // the most that DEADMAN_ALERTS may hold, at its creation; 0: 1 GiB
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
	pace     pace
	filling  filling
	denied   denials
}

// Connect connects, and sees to it that DEADMAN_ALERTS is there. It returns ErrUnreachable
// when the broker or its JetStream is not there yet, ErrURL when it never will be, and ErrDenied
// when its user lacks a permission. A connection that was made once
// reconnects for ever.
func Connect(ctx context.Context, o Options) (*Bus, error) {
	if err := o.spoken(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.AlertsBytes == 0 {
		o.AlertsBytes = defaultAlertCap
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

func (b *Bus) dial() (err error) {
	b.nc, err = nats.Connect(b.opts.URL, b.dialing()...)
	if err != nil {
		return b.opts.refused(err)
	}
	b.js, err = jetstream.New(b.nc,
		jetstream.WithPublishAsyncTimeout(answerTimeout),
		jetstream.WithPublishAsyncMaxPending(pendingMost),
		jetstream.WithDefaultTimeout(answerTimeout))
	if err != nil {
		b.nc.Close()
		return fmt.Errorf("connect to NATS: %w", err)
	}
	return nil
}

func (b *Bus) dialing() []nats.Option {
	o := b.opts
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingEvery), // a connection that is half open is noticed
		nats.FlusherTimeout(answerTimeout),
		nats.ReconnectBufSize(-1), // what cannot be sent now is an error now, not a surprise later
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if nc.IsClosed() {
				return // by us
			}
			o.Log.Warn("NATS connection lost; reconnecting", "err", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			o.Log.Info("NATS connection is back", "url", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if b.denied.noticed(err, o.Log) {
				return
			}
			o.Log.Error("NATS connection", "err", err)
		}),
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.InProcess != nil {
		opts = append(opts, nats.InProcessServer(o.InProcess))
	}
	return opts
}

// spoken refuses an address with a scheme that NATS does not speak. Only the scheme is
// quoted: behind it there may be a password.
func (o Options) spoken() error {
	for _, one := range strings.Split(o.URL, ",") {
		scheme, _, has := strings.Cut(strings.TrimSpace(one), "://")
		if has && !slices.Contains([]string{"nats", "tls", "ws", "wss"}, strings.ToLower(scheme)) && !strings.ContainsAny(scheme, ":@") {
			return fmt.Errorf("%w: DEADMAN_NATS_URL begins with %q; write nats://host:4222, or tls://, ws:// or wss://", ErrURL, scheme+"://")
		}
	}
	return nil
}

// refused says what a person can do about a connection that was not made.
func (o Options) refused(err error) error {
	var dial *net.OpError
	var name *net.DNSError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("connect to NATS: %w; check the credentials file or the user in the URL", err)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &dial), errors.As(err, &name):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("connect to NATS: %w", err)
}

// Connected reports whether the broker can be asked at this moment.
func (b *Bus) Connected() bool { return b.nc.IsConnected() }

// Close ends the connection. What waits for an answer fails.
func (b *Bus) Close() { b.nc.Close() }

// within bounds a request that has no deadline.
func (b *Bus) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerTimeout)
}
