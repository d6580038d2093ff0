package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// RequestMany asks all who answer on a subject, and returns up to most answers: those that came until
// nothing did for quiet after the first, or until ctx's deadline, which is no error. None is no
// error either. ctx has a deadline. It returns ErrUnreachable without a connection, and ErrDenied where the broker
// does not let its user ask.
func (b *Bus) RequestMany(ctx context.Context, subject string, most int, quiet time.Duration) ([]*nats.Msg, error) {
	if !b.Connected() {
		return nil, ErrUnreachable
	}
	heard, done := b.withConnection(ctx, subject)
	defer done()
	answers, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("gather on %s: %w", subject, offline(err))
	}
	defer func() { _ = answers.Unsubscribe() }() // it fails without a connection, which has none to end
	if err := b.nc.PublishRequest(subject, answers.Subject, nil); err != nil {
		return nil, fmt.Errorf("gather on %s: %w", subject, offline(err))
	}
	if err := b.nc.FlushWithContext(heard); err != nil { // a broker that is silent is not one where nobody answers
		return nil, fmt.Errorf("gather on %s: %w", subject, unanswered(noAnswerError(heard, err)))
	}
	all, err := collectAnswers(heard, answers, most, quiet)
	if err = noAnswerError(heard, err); err != nil {
		return nil, fmt.Errorf("gather on %s: %w", subject, offline(err))
	}
	return all, nil
}

func collectAnswers(ctx context.Context, answers *nats.Subscription, most int, quiet time.Duration) (all []*nats.Msg, err error) {
	for len(all) < most {
		wait, done := ctx, context.CancelFunc(func() {})
		if len(all) > 0 {
			wait, done = context.WithTimeout(ctx, quiet)
		}
		m, err := answers.NextMsgWithContext(wait)
		done()
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return all, nil
		case errors.Is(err, context.DeadlineExceeded): // of ctx, or of the quiet
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
