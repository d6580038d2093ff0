package sources

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"deadman/checks"
	"deadman/checks/lookup"
	"deadman/internal/configfile"
)

// broker queries services and buckets over NATS: the node's own connection, or a separate one.
type broker struct {
	spec   NATS
	shared func() *nats.Conn // the node's connection

	mu     sync.Mutex
	conn   *nats.Conn // the separate connection; nil until first use
	closed bool
}

var _ lookup.Client = (*broker)(nil)

func openNATS(name string, spec NATS, shared func() *nats.Conn) (lookup.Client, error) {
	if spec.URL == "" && spec.Creds != "" {
		return nil, fmt.Errorf("source %s: creds without a url; write both, or neither to use the node's NATS connection", name)
	}
	return &broker{spec: spec, shared: shared}, nil
}

// errNotNATS is the error of a question for another kind of source.
var errNotNATS = fmt.Errorf("%w: a NATS source supports only nats and kv lookups", lookup.ErrQuestion)

// Query queries a service or a bucket.
func (b *broker) Query(ctx context.Context, q lookup.Question, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	if !q.NATS && q.KV == "" {
		return nil, errNotNATS
	}
	conn, err := b.connected()
	if err != nil {
		return nil, err
	}
	if q.NATS {
		return request(ctx, conn, queries)
	}
	return bucket{conn, q.KV}.get(ctx, queries)
}

// Verify checks that the bucket exists, or that no stream captures the subject. The service behind a subject can't be
// verified without a request.
func (b *broker) Verify(ctx context.Context, q lookup.Question, _ int) ([]lookup.Column, error) {
	if !q.NATS && q.KV == "" {
		return nil, errNotNATS
	}
	conn, err := b.connected()
	switch {
	case err != nil:
		return nil, err
	case q.NATS && q.Subject == "":
		return nil, nil
	case q.NATS:
		return nil, checkStreams(ctx, conn, q.Subject)
	}
	_, err = bucket{conn, q.KV}.open(ctx)
	return nil, err
}

// Reach pings the server.
func (b *broker) Reach(ctx context.Context) error {
	conn, err := b.connected()
	if err != nil {
		return err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialTime)
		defer cancel()
	}
	if err := conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("the NATS server does not answer: %w", err)
	}
	return nil
}

// Close closes a separate connection.
func (b *broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.conn != nil {
		b.conn.Close()
	}
}

// connected returns the connection if it is currently usable.
func (b *broker) connected() (*nats.Conn, error) {
	conn, err := b.connection()
	switch {
	case err != nil:
		return nil, err
	case conn == nil:
		return nil, errors.New("not connected to NATS yet")
	case !conn.IsConnected():
		why := cmp.Or(conn.LastError(), errors.New("the connection was lost"))
		return nil, fmt.Errorf("not connected to NATS: %w", why)
	}
	return conn, nil
}

// errNoNode means that the source uses the node's connection, and no node is running.
var errNoNode = errors.New("the source uses the node's NATS connection, which is not available here")

func (b *broker) connection() (*nats.Conn, error) {
	switch {
	case b.spec.URL != "":
	case b.shared == nil:
		return nil, errNoNode
	default:
		return b.shared(), nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nats.ErrConnectionClosed
	}
	if b.conn == nil {
		conn, err := b.spec.dial()
		if err != nil {
			return nil, fmt.Errorf("connect to NATS: %w", err)
		}
		b.conn = conn
	}
	return b.conn, nil
}

// The settings of a separate connection.
const (
	dialTime      = 2 * time.Second
	redialEvery   = 500 * time.Millisecond
	lifeSignEvery = 10 * time.Second
	// inbox is the prefix of reply subjects, the same as for the node's connection: the user needs no permission to
	// receive replies to others.
	inbox = "_INBOX.deadman"
)

// dial connects. An unavailable server is retried in the background; the connection's last error holds the cause.
func (n NATS) dial() (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name("deadman lookups"),
		nats.Timeout(dialTime),
		nats.CustomInboxPrefix(inbox),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a rejection may be temporary, during a rotation of credentials
		nats.ReconnectWait(redialEvery),
		nats.PingInterval(lifeSignEvery),
		nats.ReconnectBufSize(-1),                                         // messages that can't be sent now fail now
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // LastError has the error
	}
	if n.Creds != "" {
		opts = append(opts, nats.UserCredentials(n.Creds))
	}
	conn, err := nats.Connect(n.URL, opts...)
	var bad *url.Error
	if errors.As(err, &bad) {
		// bad quotes the URL, so it is left out.
		return nil, errors.New("the url is invalid; write nats://user:password@host:4222, with %2F for a / in the password")
	}
	return conn, err
}

// decodeAnswer returns the JSON object of a message; nil: null, so no such entity.
func decodeAnswer(data []byte) (json.RawMessage, error) {
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		return nil, errors.New("the answer is empty; answer null if the entity does not exist")
	case string(text) == "null":
		return nil, nil
	default:
		return object(text)
	}
}

// clip limits the length of a quoted foreign text.
func clip(text string) string { return configfile.Truncate(text, 200) }

// NATS is the node's own NATS connection, or another one.
type NATS struct {
	URL   string // secret; empty: the node's connection
	Creds string // path of the credentials file
}
