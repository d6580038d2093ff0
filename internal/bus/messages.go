package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"deadman/internal/subjects"
)

// Messages sends and answers messages that no stream stores.
type Messages struct{ conn *Conn }

// Publish sends a message to the current subscribers, and returns once the broker has it. It returns ErrSubject as
// EventPublisher does, ErrDenied if the broker's user lacks the permission, and ErrUnreachable without a connection.
// The broker reports a denial before it answers the flush.
func (m *Messages) Publish(ctx context.Context, subject string, data []byte) error {
	if err := checkLiteral(subject); err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	if !m.conn.Connected() {
		return ErrUnreachable // the client would buffer it and send it late
	}
	begun, before := time.Now(), m.conn.nc.LastError()
	if err := m.conn.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("publish: %w", offline(err))
	}
	if err := m.conn.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("publish: %w", offline(err))
	}
	if err := m.conn.nc.LastError(); err != nil && !errors.Is(before, err) {
		m.conn.denied.record(err, m.conn.log) // the error handler may not have run yet
	}
	return m.conn.denied.since(begun, subject)
}

// Request sends a request and returns the first answer. It returns nats.ErrNoResponders without a responder,
// ErrUnreachable without a connection or if it is lost meanwhile, ErrDenied if the broker's user lacks the
// permission, and ctx's error if no answer comes before it ends.
func (m *Messages) Request(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	if !m.conn.Connected() {
		return nil, ErrUnreachable // the client would wait for a connection
	}
	connCtx, done := m.conn.withConnection(ctx, msg.Subject)
	defer done()
	answer, err := m.conn.nc.RequestMsgWithContext(connCtx, msg)
	if err != nil && ctx.Err() == nil && connCtx.Err() != nil {
		err = context.Cause(connCtx)
	}
	if err != nil {
		return nil, fmt.Errorf("request on %s: %w", msg.Subject, offline(err))
	}
	return answer, nil
}

// RequestMany sends a request to all responders and returns up to limit answers. It ends when no further answer comes
// for quiet after the first, or at ctx's deadline, without an error. No answers are no error either. ctx must have a
// deadline. It returns ErrUnreachable without a connection, and ErrDenied if the broker's user lacks the permission.
func (m *Messages) RequestMany(ctx context.Context, subject string, limit int, quiet time.Duration) ([]*nats.Msg, error) {
	if !m.conn.Connected() {
		return nil, ErrUnreachable
	}
	connCtx, done := m.conn.withConnection(ctx, subject)
	defer done()
	answers, err := m.conn.nc.SubscribeSync(m.conn.nc.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("gather on %s: %w", subject, offline(err))
	}
	defer func() { _ = answers.Unsubscribe() }() // fails only without a connection
	if err := m.conn.nc.PublishRequest(subject, answers.Subject, nil); err != nil {
		return nil, fmt.Errorf("gather on %s: %w", subject, offline(err))
	}
	if err := m.conn.nc.FlushWithContext(connCtx); err != nil { // distinguishes a silent broker from missing responders
		return nil, fmt.Errorf("gather on %s: %w", subject, unanswered(noAnswerError(connCtx, err)))
	}
	all, err := collectAnswers(connCtx, answers, limit, quiet)
	if err = noAnswerError(connCtx, err); err != nil {
		return nil, fmt.Errorf("gather on %s: %w", subject, offline(err))
	}
	return all, nil
}

func collectAnswers(ctx context.Context, answers *nats.Subscription, limit int, quiet time.Duration) (all []*nats.Msg, err error) {
	for len(all) < limit {
		wait, done := ctx, context.CancelFunc(func() {})
		if len(all) > 0 {
			wait, done = context.WithTimeout(ctx, quiet)
		}
		m, err := answers.NextMsgWithContext(wait)
		done()
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return all, nil
		case errors.Is(err, context.DeadlineExceeded): // deadline of ctx, or end of quiet
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Reply is the answer to a request. A refusal has a reason and a code, also in the headers of NATS services.
type Reply struct {
	Data []byte
	Why  string // reason of a refusal; empty: accepted
	Code int
}

// Respond answers requests on a subject until ctx ends, one at a time. Each request goes to one member of the group.
// do receives the request's subject and body, and has up to five seconds. Messages that are not client requests are
// dropped (see isRequest). If the broker denies subscribing or replying, the missing permission is logged, and requests
// get no reply.
func (m *Messages) Respond(ctx context.Context, subject, group string, do func(ctx context.Context, subject string, body []byte) Reply) error {
	requests, err := m.conn.nc.QueueSubscribe(subject, group, func(msg *nats.Msg) {
		if !m.isRequest(msg) {
			m.conn.log.Debug("a message that is no request is dropped", "subject", msg.Subject, "reply", msg.Reply)
			return
		}
		ctx, done := context.WithTimeout(ctx, answerTimeout)
		defer done()
		reply := do(ctx, msg.Subject, msg.Data)
		if err := msg.RespondMsg(reply.message()); err != nil {
			m.conn.log.Warn("a request is not answered", "subject", msg.Subject, "err", err)
		}
	})
	if err != nil {
		return fmt.Errorf("answer on %s: %w", subject, offline(err))
	}
	<-ctx.Done()
	_ = requests.Unsubscribe() // fails only without a connection
	return nil
}

// isRequest reports whether a message is a client's request. A client without the permission to publish on a subject can
// make JetStream publish there, as the answer to a permitted request. Such a message has a status, or a reply subject
// that is empty or the broker's own. Besides, a reply must go to a client and not to a subject of events or alerts.
func (m *Messages) isRequest(msg *nats.Msg) bool {
	first, _, _ := strings.Cut(msg.Reply, ".")
	switch {
	case msg.Reply == "" || msg.Header.Get(statusHeader) != "":
		return false
	case m.conn.opts.InProcess != nil: // its users have no other inboxes
		return first == "_INBOX"
	}
	return !strings.HasPrefix(first, "$") && !subjects.OfDeadman(first)
}

func (r Reply) message() *nats.Msg {
	m := &nats.Msg{Data: r.Data}
	if r.Why != "" {
		m.Header = nats.Header{micro.ErrorHeader: {r.Why}, micro.ErrorCodeHeader: {strconv.Itoa(r.Code)}}
	}
	return m
}
