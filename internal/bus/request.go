package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// Request sends a request and returns the first answer. It returns nats.ErrNoResponders without a responder,
// ErrUnreachable without a connection or if it is lost meanwhile, ErrDenied if the broker's user lacks the
// permission, and ctx's error if no answer comes before it ends.
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

// RequestMany sends a request to all responders and returns up to most answers. It ends when no further answer comes
// for quiet after the first, or at ctx's deadline, without an error. No answers are no error either. ctx must have a
// deadline. It returns ErrUnreachable without a connection, and ErrDenied if the broker's user lacks the permission.
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
	defer func() { _ = answers.Unsubscribe() }() // fails only without a connection
	if err := b.nc.PublishRequest(subject, answers.Subject, nil); err != nil {
		return nil, fmt.Errorf("gather on %s: %w", subject, offline(err))
	}
	if err := b.nc.FlushWithContext(heard); err != nil { // distinguishes a silent broker from missing responders
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
		case errors.Is(err, context.DeadlineExceeded): // deadline of ctx, or end of quiet
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
