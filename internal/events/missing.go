package events

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// advanceInterval is how often the cursor of a quiet stream is put past what is not for the rules.
const advanceInterval = 10 * time.Second

// A stream that goes on losing events is alerted at once, and then with the sum of each minute.
const (
	lossInterval     = time.Minute
	lastAlertTimeout = 5 * time.Second
)

// losses is what the stream lost after the cursor. It is counted in the transaction that moves the
// cursor past it, and alerted from there.
type losses struct {
	gone    []Span
	atMost  bool      // a lost message may be none that the rules read
	alerted time.Time // when an alert was raised last
}

// reportLoss raises the alert that events of the stream after since were not read, until an instant
// or, where that was before, until now. It is raised before the cursor moves on.
func (t *streamReader) reportLoss(ctx context.Context, since, to time.Time, why string) error {
	if since.IsZero() {
		return nil // it was never read
	}
	if !to.After(since) {
		to = t.in.Now()
	}
	if !to.After(since) {
		to = since
	}
	if err := t.recordGap(ctx); err != nil {
		return err
	}
	remark := alerts.StreamLoss(t.stream, since, to, why).Affecting(t.in.Book.RulesReading(t.stream))
	if err := t.in.Announce(ctx, remark); err != nil {
		return fmt.Errorf("alert that events of stream %s were lost: %w", t.stream, err)
	}
	return nil
}

// since is after which instant events of the stream are lost where the cursor stands.
func since(cursor futurejobs.Cursor) time.Time {
	if cursor.LastAt.IsZero() {
		return cursor.StreamCreatedAt
	}
	return cursor.LastAt
}

// account asks the reader what the stream lost.
func (t *streamReader) account(ctx context.Context) error {
	loss, err := t.reader.Lost(ctx)
	if err != nil {
		return fmt.Errorf("find out what the stream lost: %w", err)
	}
	return t.checkLossWhileReading(ctx, loss)
}

// checkLossWhileReading takes in what the stream lost. A reader that starts again at the same cursor finds the same
// sequences again; they count once.
func (t *streamReader) checkLossWhileReading(ctx context.Context, loss Loss) error {
	if len(loss.Gone) == 0 {
		return nil
	}
	before := Count(t.losses.gone)
	t.losses.gone, t.losses.atMost = after(Union(t.losses.gone, loss.Gone), t.cursor.LastSeq), loss.AtMost
	n := Count(t.losses.gone) - before
	if n == 0 {
		return nil
	}
	t.passAt = time.Time{} // where no event takes the cursor past it
	t.in.Log.Error("a stream lost events before they were read", "stream", t.stream, "events", n, "at_most", loss.AtMost,
		"first_seq", loss.Gone[0].First, "last_seq", loss.Gone[len(loss.Gone)-1].Last, "subjects", t.subjects, "rules", t.in.Book.RulesReading(t.stream))
	return t.recordGap(ctx) // heartbeats are judged by that
}

// after are the sequences of spans that follow one.
func after(spans []Span, seq uint64) []Span { return Without(spans, []Span{{Last: seq}}) }

// lostThrough is how many lost events a cursor at a sequence is past.
func (t *streamReader) lostThrough(seq uint64) int64 {
	return int64(min(Count(t.losses.gone)-Count(after(t.losses.gone, seq)), math.MaxInt64)) //nolint:gosec // it is bounded
}

// counted takes in that the cursor was moved past n lost events.
func (t *streamReader) counted(n int64) {
	if n == 0 {
		return
	}
	if t.cursor.Lost == 0 {
		t.cursor.LostSince = since(t.cursor)
	}
	t.cursor.Lost += n
	if o := t.in.Observer; o != nil {
		o.Taken(Lost, int(n))
	}
}

// report raises the alert of the lost events that the cursor is past, unless one was raised a moment ago.
func (t *streamReader) report(ctx context.Context) error {
	if now := t.in.Now(); t.cursor.Lost == 0 || !now.IsZero() && now.Before(t.losses.alerted.Add(lossInterval)) {
		return nil
	}
	return t.alertLosses(ctx)
}

// alertLosses raises the alert of the lost events that the cursor is past.
func (t *streamReader) alertLosses(ctx context.Context) error {
	n := t.cursor.Lost
	remark := alerts.StreamLoss(t.stream, t.cursor.LostSince, later(t.cursor.LastAt, t.cursor.LostSince), t.why()).Affecting(t.in.Book.RulesReading(t.stream))
	remark.Count = int(min(n, math.MaxInt32))
	a, said, err := t.in.Store.ReportLost(ctx, t.stream, n, remark)
	if err != nil {
		return fmt.Errorf("alert that stream %s lost %d events: %w", t.stream, n, err)
	}
	if said && t.in.Observer != nil {
		t.in.Observer.Alerted(a)
	}
	t.losses.alerted, t.cursor.Lost, t.cursor.LostSince = t.in.Now(), 0, time.Time{}
	return nil
}

// alertLast raises the alert when reading ends; otherwise the next reader does.
func (t *streamReader) alertLast(ctx context.Context) {
	if t.cursor.Lost == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAlertTimeout)
	defer cancel()
	if err := t.alertLosses(ctx); err != nil {
		t.in.Log.Warn("lost events are alerted later", "stream", t.stream, "events", t.cursor.Lost, "err", err)
	}
}

// mostNamed is how many subjects an alert names.
const mostNamed = 5

// why says what is lost.
func (t *streamReader) why() string {
	on := strings.Join(t.subjects[:min(len(t.subjects), mostNamed)], ", ")
	if more := len(t.subjects) - mostNamed; more > 0 {
		on += fmt.Sprintf(" and %d more", more)
	}
	one := t.cursor.Lost == 1
	what := fmt.Sprintf("lost %d events on %s", t.cursor.Lost, on)
	switch {
	case one && t.losses.atMost:
		what = "lost a message, which may be an event on " + on
	case one:
		what = "lost 1 event on " + on
	case t.losses.atMost:
		what = fmt.Sprintf("lost %d messages, of which some or all may be events on %s,", t.cursor.Lost, on)
	}
	return what + " to a limit, a purge or a deletion before they were read"
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reportStreamGone says once of a stream that is not there that what it had is lost.
func (t *streamReader) reportStreamGone(ctx context.Context, why error) error {
	if t.gone || !errors.Is(why, ErrGone) {
		return nil
	}
	cursor, _, err := t.in.Store.Cursor(ctx, t.stream)
	if err == nil {
		err = t.reportLoss(ctx, since(cursor), t.in.Now(), "was deleted")
	}
	t.gone = err == nil
	return err
}

// advancePastUnmatched puts the cursor past messages that are for nobody, now and then: so it is known later
// that they were looked at, though they are gone by then.
func (t *streamReader) advancePastUnmatched(ctx context.Context) error {
	now := t.in.Now()
	if now.Before(t.passAt) {
		return nil
	}
	info, err := t.in.Streams.Info(ctx, t.stream)
	if err != nil {
		return err
	}
	if !info.CreatedAt.Equal(t.cursor.StreamCreatedAt) {
		return errReopenReader
	}
	t.passAt = now.Add(t.passIn(now, info))
	if info.LastSeq <= t.cursor.LastSeq {
		return nil
	}
	drained, err := t.reader.Drained(ctx, t.cursor.LastSeq, info.LastSeq)
	if err != nil || !drained {
		return err
	}
	if err := t.account(ctx); err != nil {
		return err
	}
	t.looked = info.LastSeq
	err = t.apply(ctx, futurejobs.EffectBatch{
		Stream: t.stream, After: t.cursor.LastSeq, Last: info.LastSeq, LastAt: info.LastAt, RuleSet: t.revision,
	}, 0)
	if errors.Is(err, futurejobs.ErrRulesChanged) {
		return nil // another time
	}
	return err
}

// passIn is after which time the cursor is put on again: sooner where the stream drops its first
// messages so fast that it reaches the cursor before. Messages it drops behind the cursor cannot be
// told from events that were not read.
func (t *streamReader) passIn(now time.Time, info Info) time.Duration {
	dropped, took := info.FirstSeq-min(info.FirstSeq, t.firstSeq), now.Sub(t.firstAt)
	first := t.firstAt.IsZero()
	t.firstSeq, t.firstAt = info.FirstSeq, now
	if first || dropped == 0 || took <= 0 {
		return advanceInterval
	}
	kept := info.LastSeq - min(info.LastSeq, info.FirstSeq)
	return max(pollTimeout, min(advanceInterval, time.Duration(float64(took)*float64(kept)/float64(2*dropped))))
}
