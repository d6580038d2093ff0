package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Reply is the answer to a request. A refusal has a reason and a code, also in the headers of NATS services.
type Reply struct {
	Data []byte
	Why  string // reason of a refusal; empty: accepted
	Code int
}

// Respond answers requests on a subject until ctx ends, one at a time. Each request goes to one member of the group.
// do receives the request's subject and body, and has up to five seconds. Messages that are not client requests are
// dropped (see asks). If the broker denies subscribing or replying, the missing permission is logged, and requests
// get no reply.
func (b *Bus) Respond(ctx context.Context, subject, group string, do func(ctx context.Context, subject string, body []byte) Reply) error {
	asked, err := b.nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		if !b.asks(m) {
			b.log.Debug("a message that is no request is dropped", "subject", m.Subject, "reply", m.Reply)
			return
		}
		ctx, done := context.WithTimeout(ctx, answerTimeout)
		defer done()
		reply := do(ctx, m.Subject, m.Data)
		if err := m.RespondMsg(reply.message()); err != nil {
			b.log.Warn("a request is not answered", "subject", m.Subject, "err", err)
		}
	})
	if err != nil {
		return fmt.Errorf("answer on %s: %w", subject, offline(err))
	}
	<-ctx.Done()
	_ = asked.Unsubscribe() // fails only without a connection
	return nil
}

// asks reports whether a message is a client's request. A client without the permission to publish on a subject can
// make JetStream publish there, as the answer to a permitted request. Such a message has a status, or a reply subject
// that is empty or the broker's own. Besides, a reply must go to a client and not to a subject of events or alerts.
func (b *Bus) asks(m *nats.Msg) bool {
	first, _, _ := strings.Cut(m.Reply, ".")
	switch {
	case m.Reply == "" || m.Header.Get(statusHeader) != "":
		return false
	case b.opts.InProcess != nil: // its users have no other inboxes
		return first == "_INBOX"
	}
	return first != "deadman" && !strings.HasPrefix(first, "$")
}

func (r Reply) message() *nats.Msg {
	m := &nats.Msg{Data: r.Data}
	if r.Why != "" {
		m.Header = nats.Header{micro.ErrorHeader: {r.Why}, micro.ErrorCodeHeader: {strconv.Itoa(r.Code)}}
	}
	return m
}
