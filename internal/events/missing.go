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

// advanceInterval is the interval at which the cursor of a quiet stream advances past unmatched messages.
const advanceInterval = 10 * time.Second

// A stream with continuing losses raises an alert at once, and then one per minute with the sum.
const (
	lossInterval     = time.Minute
	lastAlertTimeout = 5 * time.Second
)

// losses tracks the stream's losses after the cursor. They are counted in the transaction that moves the cursor past
// them, and alerts use that count.
type losses struct {
	gone    []Span
	atMost  bool      // lost messages may be irrelevant to the rules
	alerted time.Time // time of the last alert
}

// reportLoss raises the alert that events of the stream after since were not read, until to, or until now if to is
// not after since. The alert precedes the move of the cursor.
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
	remark := lossOf(t.line, since, to, why).Affecting(t.in.Book.RulesReading(t.line))
	if err := t.in.Announce(ctx, remark); err != nil {
		return fmt.Errorf("alert that events of stream %s were lost: %w", t.line, err)
	}
	return nil
}

// lossOf returns the alert that events of a line were not read. Each line of a stream has its own, for its own rules.
func lossOf(line string, since, to time.Time, why string) alerts.SystemAlert {
	r := alerts.StreamLoss(futurejobs.StreamOf(line), since, to, why)
	if futurejobs.IsTenantsLine(line) {
		r.Topic, r.Text = r.Topic+"/tenants", r.Text+"; this concerns the rules of tenants"
		r.Labels["line"] = "tenants"
	}
	return r
}

// since returns the time after which events are lost for a cursor.
func since(cursor futurejobs.Cursor) time.Time {
	if cursor.LastAt.IsZero() {
		return cursor.StreamCreatedAt
	}
	return cursor.LastAt
}

// account queries the reader for losses.
func (t *streamReader) account(ctx context.Context) error {
	loss, err := t.reader.Lost(ctx)
	if err != nil {
		return fmt.Errorf("count the lost events of the stream: %w", err)
	}
	return t.checkLossWhileReading(ctx, loss)
}

// checkLossWhileReading records losses of the stream. A reader restarted at the same cursor reports the same
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
	t.passAt = time.Time{} // in case no event moves the cursor past it
	t.in.Log.Error("a stream lost events before they were read", "stream", t.line, "events", n, "at_most", loss.AtMost,
		"first_seq", loss.Gone[0].First, "last_seq", loss.Gone[len(loss.Gone)-1].Last, "subjects", t.subjects, "rules", t.in.Book.RulesReading(t.line))
	return t.recordGap(ctx) // heartbeats are judged by it
}

// after returns the sequences of spans after seq.
func after(spans []Span, seq uint64) []Span { return Without(spans, []Span{{Last: seq}}) }

// lostThrough returns the number of lost events up to a sequence.
func (t *streamReader) lostThrough(seq uint64) int64 {
	return int64(min(Count(t.losses.gone)-Count(after(t.losses.gone, seq)), math.MaxInt64)) //nolint:gosec // it is bounded
}

// counted records that the cursor moved past n lost events.
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

// report raises the alert about lost events before the cursor, at most once per lossInterval.
func (t *streamReader) report(ctx context.Context) error {
	if now := t.in.Now(); t.cursor.Lost == 0 || !now.IsZero() && now.Before(t.losses.alerted.Add(lossInterval)) {
		return nil
	}
	return t.alertLosses(ctx)
}

// alertLosses raises the alert about lost events before the cursor.
func (t *streamReader) alertLosses(ctx context.Context) error {
	n := t.cursor.Lost
	remark := lossOf(t.line, t.cursor.LostSince, later(t.cursor.LastAt, t.cursor.LostSince), t.why()).Affecting(t.in.Book.RulesReading(t.line))
	remark.Count = int(min(n, math.MaxInt32))
	a, said, err := t.in.Store.ReportLost(ctx, t.line, n, remark)
	if err != nil {
		return fmt.Errorf("alert that stream %s lost %d events: %w", t.line, n, err)
	}
	if said && t.in.Observer != nil {
		t.in.Observer.Alerted(a)
	}
	t.losses.alerted, t.cursor.Lost, t.cursor.LostSince = t.in.Now(), 0, time.Time{}
	return nil
}

// alertLast raises the remaining alert when reading ends; on failure the next reader raises it. A transaction without an
// answer may have counted losses that only the stored cursor has.
func (t *streamReader) alertLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAlertTimeout)
	defer cancel()
	var err error
	if t.unsure {
		t.cursor, _, err = t.in.Store.Cursor(ctx, t.line)
	}
	if err == nil && t.cursor.Lost > 0 {
		err = t.alertLosses(ctx)
	}
	if err != nil {
		t.in.Log.Warn("lost events are alerted later", "stream", t.line, "err", err)
	}
}

// mostNamed is the largest number of subjects named in an alert.
const mostNamed = 5

// why describes the loss.
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

// reportStreamGone alerts once that the unread messages of a deleted stream are lost.
func (t *streamReader) reportStreamGone(ctx context.Context, why error) error {
	if t.gone || !errors.Is(why, ErrGone) {
		return nil
	}
	cursor, _, err := t.in.Store.Cursor(ctx, t.line)
	if err == nil {
		err = t.reportLoss(ctx, since(cursor), t.in.Now(), "was deleted")
	}
	t.gone = err == nil
	return err
}

// advancePastUnmatched advances the cursor past unmatched messages at intervals, so that their later removal from the
// stream does not count as a loss.
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
		Stream: t.line, After: t.cursor.LastSeq, Last: info.LastSeq, LastAt: info.LastAt, RuleSet: t.revision,
	}, 0)
	if errors.Is(err, futurejobs.ErrRulesChanged) {
		return nil // retried later
	}
	return err
}

// passIn returns the delay until the next advance of the cursor: shorter if the stream drops its first messages so
// fast that they would reach the cursor earlier. Messages dropped after the cursor are indistinguishable from lost
// events.
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
