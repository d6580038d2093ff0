package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/errgroup"

	"deadman/checks"
	"deadman/checks/lookup"
)

// The headers of requests and replies.
const (
	deadlineHeader = "Deadman-Deadline" // deadline of the reply, RFC 3339
	absentHeader   = "Deadman-Absent"   // true: no such entity
)

// noStream is the expected stream of a request. No stream has this name, so a stream that captures the subject
// rejects the request without storing it, and replies with the reason.
const noStream = "-"

// errStreamed means that a stream captures the subject of a request.
var errStreamed = errors.New("a stream stores this subject, and a lookup must not publish events; use a separate subject for the service")

// requestsMost is the maximum number of concurrent requests of a batch.
const requestsMost = 500

// request sends one request per entity, over one inbox. If no entity got any reply, not even a rejection, the service
// is missing or hangs, and its error is returned.
func request(ctx context.Context, conn *nats.Conn, queries []lookup.KeyQuery) ([]checks.Finding, error) {
	found, answered := unknown(queries), make([]bool, len(queries))
	var group errgroup.Group
	group.SetLimit(requestsMost)
	for i, query := range queries {
		group.Go(func() error {
			var value []byte
			var err error
			value, answered[i], err = requestOne(ctx, conn, query.Subject)
			found[i] = checks.Finding{Value: value, Err: err}
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
	for _, h := range answered {
		if h {
			return found, nil
		}
	}
	if len(found) == 0 {
		return found, nil
	}
	if err := found[0].Err; !errors.Is(err, nats.ErrNoResponders) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", lookup.ErrQuestion, found[0].Err) // services on other subjects may be available
}

// requestOne requests one entity. isAnswered is false without a reply.
func requestOne(ctx context.Context, conn *nats.Conn, subject string) (value []byte, isAnswered bool, err error) {
	m := nats.NewMsg(subject)
	m.Header.Set(jetstream.ExpectedStreamHeader, noStream)
	if until, bounded := ctx.Deadline(); bounded {
		m.Header.Set(deadlineHeader, until.UTC().Format(time.RFC3339Nano))
	}
	answer, err := conn.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, false, fmt.Errorf("no service answers on %s: %w", subject, err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, false, fmt.Errorf("no answer in time on %s; the service hangs, or the NATS user lacks the permission to publish there: %w", subject, err)
	case err != nil:
		return nil, false, fmt.Errorf("request on %s: %w", subject, err)
	}
	if isOfStream(answer.Data) {
		return nil, true, fmt.Errorf("on %s: %w", subject, errStreamed)
	}
	value, err = answered(answer)
	if err != nil {
		return nil, true, fmt.Errorf("on %s: %w", subject, err)
	}
	return value, true, nil
}

// isOfStream reports whether a reply is from a stream, by JetStream's error codes of 10000 and above.
func isOfStream(data []byte) bool {
	var ack struct {
		Stream string `json:"stream"`
		Error  struct {
			Code int `json:"err_code"`
		} `json:"error"`
	}
	return json.Unmarshal(data, &ack) == nil && ack.Stream != "" && ack.Error.Code >= 10000
}

// streamTime bounds the query for a subject's stream.
const streamTime = time.Second

// checkStreams rejects subjects captured by a stream. If the query fails, the stream itself rejects requests later.
func checkStreams(ctx context.Context, conn *nats.Conn, pattern string) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	if stream, err := js.StreamNameBySubject(ctx, pattern); err == nil {
		return fmt.Errorf("%w: the stream %s stores %s; %w", lookup.ErrQuestion, stream, pattern, errStreamed)
	}
	return nil
}

// answered returns the value in a reply; nil: no such entity.
func answered(m *nats.Msg) ([]byte, error) {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, fmt.Errorf("the service responded with error %s: %s", code, clip(m.Header.Get(micro.ErrorHeader)))
	}
	switch absent := m.Header.Get(absentHeader); absent {
	case "true":
		return nil, nil
	case "", "false":
		return decodeAnswer(m.Data)
	default:
		return nil, fmt.Errorf("the header %s is %q; write true, or leave it out", absentHeader, clip(absent))
	}
}
