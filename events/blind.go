package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// passEvery is how often the cursor of a quiet stream is put past what is not for the rules.
const passEvery = 10 * time.Second

// blind says that events of the stream after the cursor were never seen, until an instant or,
// where that was before, until now. It is said before the cursor moves on.
func (t *tap) blind(ctx context.Context, cursor futurejobs.Cursor, to time.Time, why string) error {
	since := cursor.LastAt
	if since.IsZero() {
		since = cursor.StreamCreatedAt
	}
	if since.IsZero() {
		return nil // it was never read
	}
	if !to.After(since) {
		to = t.in.Now()
	}
	if !to.After(since) {
		to = since
	}
	if err := t.lost(ctx); err != nil {
		return err
	}
	if err := t.in.Announce(ctx, alerts.Blind(t.stream, since, to, why)); err != nil {
		return fmt.Errorf("say that events of stream %s were never seen: %w", t.stream, err)
	}
	return nil
}

// behind says that messages are gone which nobody looked at, if there are any. That they were
// for a rule is not known, and not that they were not. A reader that was closed in good order
// knew of all that there was.
func (t *tap) behind(ctx context.Context, cursor futurejobs.Cursor, info Info) error {
	if !t.failed || info.FirstSeq <= max(cursor.LastSeq, t.looked)+1 {
		return nil
	}
	if cursor.StreamCreatedAt.IsZero() || !cursor.ReadThrough.IsZero() && !info.LastAt.After(cursor.ReadThrough) {
		return nil // nothing came in since it was read to its end
	}
	if err := t.blind(ctx, cursor, info.FirstAt, "was purged, or reached its limits, before it was read"); err != nil {
		return err
	}
	t.looked = info.FirstSeq - 1
	return nil
}

// missed says that the stream dropped events while it was being read and before they were. What
// cannot be said now is said later, by whatever reader.
func (t *tap) missed(ctx context.Context, got []futurejobs.Event) error {
	if err := t.count(ctx); err != nil || t.unsaid == 0 {
		return err
	}
	to := time.Time{}
	if len(got) > 0 {
		to = got[len(got)-1].At
	}
	t.in.Log.Error("a stream dropped events before they were read", "stream", t.stream, "events", t.unsaid, "after", t.cursor.LastSeq)
	if err := t.blind(ctx, t.cursor, to, fmt.Sprintf("dropped %d events", t.unsaid)); err != nil {
		return err
	}
	t.unsaid = 0
	return nil
}

// count takes over from the reader how many events the stream dropped.
func (t *tap) count(ctx context.Context) error {
	lost, err := t.reader.Lost(ctx)
	t.unsaid += lost
	return err
}

// mourn says once of a stream that is not there that what it had is lost.
func (t *tap) mourn(ctx context.Context, why error) error {
	if t.gone || !errors.Is(why, ErrGone) {
		return nil
	}
	cursor, _, err := t.in.Ledger.Cursor(ctx, t.stream)
	if err == nil {
		err = t.blind(ctx, cursor, t.in.Now(), "was deleted")
	}
	t.gone = err == nil
	return err
}

// pass puts the cursor past messages that are for nobody, now and then: so it is known later
// that they were looked at, though they are gone by then.
func (t *tap) pass(ctx context.Context) error {
	now := t.in.Now()
	if now.Before(t.passed.Add(passEvery)) {
		return nil
	}
	t.passed = now
	info, err := t.in.Streams.Info(ctx, t.stream)
	if err != nil {
		return err
	}
	if !info.CreatedAt.Equal(t.cursor.StreamCreatedAt) {
		return errReopen
	}
	if info.LastSeq <= t.cursor.LastSeq {
		return nil
	}
	drained, err := t.reader.Drained(ctx, t.cursor.LastSeq, info.LastSeq)
	if err != nil || !drained {
		return err
	}
	t.looked = info.LastSeq
	err = t.apply(ctx, futurejobs.Batch{
		Stream: t.stream, After: t.cursor.LastSeq, Last: info.LastSeq, LastAt: info.LastAt, RuleSet: t.revision,
	}, 0)
	if errors.Is(err, futurejobs.ErrRulesChanged) {
		return nil // another time
	}
	return err
}
