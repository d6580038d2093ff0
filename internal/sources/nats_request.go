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

// Headers of requests and their answers.
const (
	deadlineHeader = "Deadman-Deadline" // until when an answer counts, RFC 3339
	absentHeader   = "Deadman-Absent"   // true: there is no such entity
)

// noStream is the name of the stream that a request is for: no stream has it, so a stream that takes in the subject refuses the
// request, stores nothing and answers why.
const noStream = "-"

// errStreamed means that a stream takes in the subject of a request.
var errStreamed = errors.New("a stream takes in this subject, and a lookup publishes no events; ask a service on a subject of its own")

// requestsMost is how many requests of a batch are on their way at once.
const requestsMost = 500

// request asks services, each about one entity, over one inbox. Where there was no answer
// about anybody, be it a refusal, the service is not there or hangs, and that is the error.
func request(ctx context.Context, conn *nats.Conn, asks []lookup.KeyQuery) ([]checks.Finding, error) {
	found, heard := unknown(asks), make([]bool, len(asks))
	var group errgroup.Group
	group.SetLimit(requestsMost)
	for i, ask := range asks {
		group.Go(func() error {
			var value []byte
			var err error
			value, heard[i], err = requestOne(ctx, conn, ask.Subject)
			found[i] = checks.Finding{Value: value, Err: err}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	for _, h := range heard {
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
	return nil, fmt.Errorf("%w: %w", lookup.ErrQuestion, found[0].Err) // services on other subjects can be asked
}

// requestOne asks about one entity. heard is false where nobody answered.
func requestOne(ctx context.Context, conn *nats.Conn, subject string) (value []byte, heard bool, err error) {
	m := nats.NewMsg(subject)
	m.Header.Set(jetstream.ExpectedStreamHeader, noStream)
	if until, bounded := ctx.Deadline(); bounded {
		m.Header.Set(deadlineHeader, until.UTC().Format(time.RFC3339Nano))
	}
	answer, err := conn.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, false, fmt.Errorf("nobody answers on %s: %w", subject, err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, false, fmt.Errorf("no answer in time on %s; the service hangs, or the NATS user may not publish there: %w", subject, err)
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

// isOfStream reports whether an answer is that of a stream, which has a code of JetStream's errors, 10000 and above.
func isOfStream(data []byte) bool {
	var ack struct {
		Stream string `json:"stream"`
		Error  struct {
			Code int `json:"err_code"`
		} `json:"error"`
	}
	return json.Unmarshal(data, &ack) == nil && ack.Stream != "" && ack.Error.Code >= 10000
}

// streamTime bounds how long the server has to say which stream takes in a subject.
const streamTime = time.Second

// checkStreams refuses subjects that a stream takes in. Where the server does not say, the stream itself refuses the request.
func checkStreams(ctx context.Context, conn *nats.Conn, pattern string) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	if stream, err := js.StreamNameBySubject(ctx, pattern); err == nil {
		return fmt.Errorf("%w: the stream %s takes in %s; %w", lookup.ErrQuestion, stream, pattern, errStreamed)
	}
	return nil
}

// answered is what an answer says of an entity; nil: there is none.
func answered(m *nats.Msg) ([]byte, error) {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, fmt.Errorf("the service says %s: %s", code, clip(m.Header.Get(micro.ErrorHeader)))
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
