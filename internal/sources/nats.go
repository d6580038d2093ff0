package sources

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"deadman/checks"
	"deadman/checks/lookup"
)

// broker asks services and buckets over a connection to NATS: the node's own, or one of its own.
type broker struct {
	spec   NATS
	shared func() *nats.Conn // the node's own

	mu     sync.Mutex
	conn   *nats.Conn // of its own; nil before it is first asked
	closed bool
}

var _ lookup.Client = (*broker)(nil)

func openNATS(name string, spec NATS, shared func() *nats.Conn) (lookup.Client, error) {
	if spec.URL == "" && spec.Creds != "" {
		return nil, fmt.Errorf("source %s: creds are for a server elsewhere, and there is no url; write both, or neither for the node's own connection", name)
	}
	return &broker{spec: spec, shared: shared}, nil
}

// errNotNATS is of a question that is for a source of another kind.
var errNotNATS = fmt.Errorf("%w: a source over NATS answers nats and kv, nothing else", lookup.ErrQuestion)

// Ask asks a service or a bucket.
func (b *broker) Ask(ctx context.Context, q lookup.Question, asks []lookup.KeyQuery) ([]checks.Finding, error) {
	if !q.NATS && q.KV == "" {
		return nil, errNotNATS
	}
	conn, err := b.connected()
	if err != nil {
		return nil, err
	}
	if q.NATS {
		return request(ctx, conn, asks)
	}
	return bucket{conn, q.KV}.get(ctx, asks)
}

// Verify finds out whether there is the bucket, and that no stream takes in the subject. Who answers there cannot be known
// before it is asked.
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

// Reach asks the server for a sign of life.
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

// Close closes a connection of its own.
func (b *broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.conn != nil {
		b.conn.Close()
	}
}

// connected returns the connection, if it can be used at this moment.
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

// errNoNode means that whoever asks has no connection that the source could be asked over.
var errNoNode = errors.New("it is asked over the node's own connection, and there is no node here")

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

// Settings of a connection of a source's own.
const (
	dialTime      = 2 * time.Second
	redialEvery   = 500 * time.Millisecond
	lifeSignEvery = 10 * time.Second
	// inbox is what the subjects of answers begin with, as on the node's own connection: its
	// user needs no permission to hear the answers to others.
	inbox = "_INBOX.deadman"
)

// dial connects. A server that is not there is tried again in the background, and why it
// can't be reached is the connection's last error.
func (n NATS) dial() (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name("deadman lookups"),
		nats.Timeout(dialTime),
		nats.CustomInboxPrefix(inbox),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a refusal may come of a rotation that is half done
		nats.ReconnectWait(redialEvery),
		nats.PingInterval(lifeSignEvery),
		nats.ReconnectBufSize(-1),                                         // what can't be sent now is an error now
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // LastError has it
	}
	if n.Creds != "" {
		opts = append(opts, nats.UserCredentials(n.Creds))
	}
	conn, err := nats.Connect(n.URL, opts...)
	var bad *url.Error
	if errors.As(err, &bad) {
		return nil, errors.New("its url is none; write nats://user:password@host:4222, with %2F for a / in the password") // bad quotes it
	}
	return conn, err
}

// decodeAnswer is what a message says of an entity; nil: it is null, and there is no such entity.
func decodeAnswer(data []byte) (json.RawMessage, error) {
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		return nil, errors.New("the answer is empty; where there is no such entity it is null")
	case string(text) == "null":
		return nil, nil
	default:
		return object(text)
	}
}

// clipMost is how much is quoted of what somebody else wrote, in bytes.
const clipMost = 200

func clip(text string) string {
	if len(text) <= clipMost {
		return text
	}
	return strings.ToValidUTF8(text[:clipMost], "") + "…"
}
