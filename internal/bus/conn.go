package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Conn is the connection to NATS that all parts of a Bus use.
type Conn struct {
	nc         *nats.Conn
	js         jetstream.JetStream
	log        *slog.Logger
	opts       Options
	denied     denials
	reconnects reconnectLog
	up         atomic.Pointer[time.Time] // start of the current connection; nil: disconnected
}

// dial connects to the broker.
func dial(o Options) (*Conn, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	c := &Conn{log: o.Log, opts: o, denied: denials{replies: o.Namespace.Inbox() + ".", alerts: strings.TrimSuffix(o.Namespace.Subject(alertSubjects), ">")}}
	opts, made := c.options()
	var err error
	if c.nc, err = nats.Connect(o.URL, opts...); err != nil {
		return nil, o.refused(err)
	}
	made.Store(c.nc)
	c.noteConnected()
	c.js, err = jetstream.New(c.nc,
		jetstream.WithPublishAsyncTimeout(answerTimeout),
		jetstream.WithPublishAsyncMaxPending(pendingMost),
		jetstream.WithDefaultTimeout(answerTimeout))
	if err != nil {
		c.nc.Close()
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return c, nil
}

// options returns the options of the connection. The caller stores the connection in made once it is established.
func (c *Conn) options() (opts []nats.Option, made *atomic.Pointer[nats.Conn]) {
	o := c.opts
	made = new(atomic.Pointer[nats.Conn])
	opts = []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(dialTimeout),
		nats.CustomInboxPrefix(o.Namespace.Inbox()),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a rotation of credentials may be half done
		nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingEvery), // detects half-open connections
		nats.FlusherTimeout(answerTimeout),
		nats.ReconnectBufSize(-1), // no buffering: a message that can't be sent fails at once
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			c.up.Store(nil)
			if nc.IsClosed() {
				return // closed by this process
			}
			o.Log.Warn("NATS connection lost; reconnecting", "err", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			c.noteConnected()
			c.reconnects.over()
			o.Log.Info("NATS connection is back", "addr", nc.ConnectedAddr()) // the URL may contain a token as its user
		}),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			switch {
			case c.denied.record(err, o.Log):
			case nc.IsConnected():
				o.Log.Error("NATS connection", "err", err)
			default:
				_ = c.reconnects.logOnce(o.Log, err)
			}
		}),
	}
	if o.InProcess != nil {
		return append(opts, nats.InProcessServer(o.InProcess), o.InProcess.self()), made
	}
	return append(opts, c.authenticator().options(made)...), made
}

// authenticator returns the authenticator of the configured identity.
func (c *Conn) authenticator() *authenticator {
	return &authenticator{identity: c.opts.Identity, log: c.log, reconnects: &c.reconnects}
}

// NATS returns the connection for requests of other packages. The Bus closes it.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// Connected reports whether the connection is established.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// ConnectedFor returns the duration of the current connection, or 0 if disconnected. The broker was reachable for
// other clients during that time, too.
func (c *Conn) ConnectedFor() time.Duration {
	if since := c.up.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

// noteConnected records the start of the current connection.
func (c *Conn) noteConnected() {
	now := time.Now()
	c.up.Store(&now)
}

// clustered reports whether the broker is a cluster.
func (c *Conn) clustered() bool { return c.nc.ConnectedClusterName() != "" }

// withConnection returns a context that is cancelled when the connection is lost or the subject is denied, because a
// pending request gets no answer then.
func (c *Conn) withConnection(ctx context.Context, subject string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	begun, denied := time.Now(), c.denied.next()
	lost := c.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		for {
			select {
			case <-lost:
				cancel(nats.ErrDisconnected)
				return
			case <-denied:
				denied = c.denied.next()
				if err := c.denied.since(begun, subject); err != nil {
					cancel(err)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		c.nc.RemoveStatusListener(lost)
	}
}

// answer waits for the answer of a stream to a message, or for a denial since begun.
func (c *Conn) answer(ctx context.Context, f jetstream.PubAckFuture, begun time.Time) (*jetstream.PubAck, error) {
	for {
		denied := c.denied.next()
		if err := c.denied.since(begun, f.Msg().Subject); err != nil {
			return nil, err
		}
		select {
		case ack := <-f.Ok():
			return ack, nil
		case err := <-f.Err():
			return nil, err
		case <-denied:
		case <-ctx.Done():
			return nil, noAnswerError(ctx, ctx.Err())
		}
	}
}

// noAnswerError returns the cause that ended a context of withConnection, or err if it is another error.
func noAnswerError(ctx context.Context, err error) error {
	if deaf := context.Cause(ctx); err != nil && (errors.Is(deaf, nats.ErrDisconnected) || errors.Is(deaf, ErrDenied)) {
		return deaf
	}
	return err
}

// withTimeout sets a timeout for a request without a deadline.
func withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerTimeout)
}
