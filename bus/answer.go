package bus

import (
	"context"
	"fmt"
	"strconv"

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

// Answer answers requests on a subject until ctx ends, one at a time; of those who answer as the
// same group, one gets each request. do is given the request's subject and body, and up to five
// seconds. Who does not wait for an answer gets none. Where the broker does not let its user listen
// or answer, that is in the log, and nobody is answered.
func (b *Bus) Answer(ctx context.Context, subject, group string, do func(ctx context.Context, subject string, body []byte) Reply) error {
	asked, err := b.nc.QueueSubscribe(subject, group, func(m *nats.Msg) {
		ctx, done := context.WithTimeout(ctx, answerTimeout)
		defer done()
		reply := do(ctx, m.Subject, m.Data)
		if m.Reply == "" {
			return
		}
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

func (r Reply) message() *nats.Msg {
	m := &nats.Msg{Data: r.Data}
	if r.Why != "" {
		m.Header = nats.Header{micro.ErrorHeader: {r.Why}, micro.ErrorCodeHeader: {strconv.Itoa(r.Code)}}
	}
	return m
}
