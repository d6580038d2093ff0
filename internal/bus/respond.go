package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Reply is the answer to a request. One that refuses it says why, and with which code, also in the
// headers of NATS's services.
type Reply struct {
	Data []byte
	Why  string // empty: it is not refused
	Code int
}

// Respond answers requests on a subject until ctx ends, one at a time; of those who answer as the
// same group, one gets each request. do is given the request's subject and body, and up to five
// seconds. A message that is no request of a client is dropped, see asks. Where the broker does not
// permit its user to subscribe or to reply, the log has the permission, and requests get no reply.
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
	_ = asked.Unsubscribe() // it fails without a connection, which has none to end
	return nil
}

// asks reports whether a message is the request of a client. A client that may not publish on a
// subject can have JetStream do so, as the answer to something that it may ask for: such a message
// has a status, no reply subject, or one of the broker's own. And an answer goes to clients alone,
// not where it would be taken for an event or an alert.
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
