package bus

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// CheckLiteral refuses, with ErrSubject, a subject that nothing may be published on.
func CheckLiteral(subject string) error { return checkLiteral(subject) }

// PublishCore publishes to whoever listens at the moment, and returns once the broker has it. It
// returns ErrSubject as PublishEvent does, ErrDenied when the broker's user may not, and
// ErrUnreachable without a connection. Of what is denied the broker says so before it confirms
// that it got everything.
func (b *Bus) PublishCore(ctx context.Context, subject string, data []byte) error {
	if err := checkLiteral(subject); err != nil {
		return err
	}
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	if !b.Connected() {
		return ErrUnreachable // the client would keep it, and say it late
	}
	begun, before := time.Now(), b.nc.LastError()
	if err := b.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("say: %w", offline(err))
	}
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("say: %w", offline(err))
	}
	if err := b.nc.LastError(); err != nil && !errors.Is(before, err) {
		b.denied.record(err, b.log) // it is on its way there
	}
	return b.denied.since(begun, subject)
}
