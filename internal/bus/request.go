package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Request asks whoever answers on a subject, and returns the first answer. It returns
// nats.ErrNoResponders where nobody listens there, ErrUnreachable without a connection, also
// when that is lost meanwhile, ErrDenied where the broker does not let its user ask, and ctx's
// error when there is no answer until it ends.
func (b *Bus) Request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if !b.Connected() {
		return nil, ErrUnreachable // the client would wait for a connection
	}
	heard, done := b.withConnection(ctx, m.Subject)
	defer done()
	answer, err := b.nc.RequestMsgWithContext(heard, m)
	if err != nil && ctx.Err() == nil && heard.Err() != nil {
		err = context.Cause(heard)
	}
	if err != nil {
		return nil, fmt.Errorf("request on %s: %w", m.Subject, offline(err))
	}
	return answer, nil
}
