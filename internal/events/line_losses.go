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

// A stream with continuing losses raises an alert at once, and then one per minute with the sum.
const (
	lossInterval     = time.Minute
	lastAlertTimeout = 5 * time.Second
)

// lineLosses tracks the losses of a line after the cursor. They are counted in the transaction that moves the cursor
// past them, and alerts use that count.
type lineLosses struct {
	in   *Intake
	line string
	gaps *gapRecorder

	spans           []Span
	atMost          bool      // lost messages may be irrelevant to the rules
	alertedAt       time.Time // time of the last alert
	reportedMissing bool      // the alert about the missing stream was raised
}

// add records losses of the stream after the cursor, and logs the new ones. A reader restarted at the same cursor
// reports the same sequences again; they count once. It returns the number of new lost sequences.
func (l *lineLosses) add(loss Loss, cursor futurejobs.Cursor, subjects []string) uint64 {
	if len(loss.Gone) == 0 {
		return 0
	}
	before := Count(l.spans)
	l.spans, l.atMost = after(Union(l.spans, loss.Gone), cursor.LastSeq), loss.AtMost
	n := Count(l.spans) - before
	if n > 0 {
		l.in.Log.Error("a stream lost events before they were read", "stream", l.line, "events", n, "at_most", loss.AtMost,
			"first_seq", loss.Gone[0].First, "last_seq", loss.Gone[len(loss.Gone)-1].Last, "subjects", subjects, "rules", l.in.Catalog.RulesReading(l.line))
	}
	return n
}

// passThrough forgets the losses up to a sequence, which the cursor has passed.
func (l *lineLosses) passThrough(seq uint64) { l.spans = after(l.spans, seq) }

// through returns the number of lost events up to a sequence.
func (l *lineLosses) through(seq uint64) int64 {
	return int64(min(Count(l.spans)-Count(after(l.spans, seq)), math.MaxInt64)) //nolint:gosec // it is bounded
}

// isAlertDue reports whether lossInterval has passed since the last alert.
func (l *lineLosses) isAlertDue(now time.Time) bool {
	return now.IsZero() || !now.Before(l.alertedAt.Add(lossInterval))
}

// alert raises the alert about the lost events before the cursor.
func (l *lineLosses) alert(ctx context.Context, cursor futurejobs.Cursor, subjects []string) error {
	n := cursor.Lost
	why := lossReason(n, l.atMost, subjects)
	loss := lossOf(l.line, cursor.LostSince, later(cursor.LastAt, cursor.LostSince), why).Affecting(l.in.Catalog.RulesReading(l.line))
	loss.Count = int(min(n, math.MaxInt32))
	a, raised, err := l.in.Store.ReportLost(ctx, l.line, n, loss)
	if err != nil {
		return fmt.Errorf("alert that stream %s lost %d events: %w", l.line, n, err)
	}
	if raised && l.in.Observer != nil {
		l.in.Observer.Alerted(a)
	}
	l.alertedAt = l.in.Now()
	return nil
}

// reportUnread raises the alert that events of the stream after since were not read, until to, or until now if to is
// not after since. The alert precedes the move of the cursor.
func (l *lineLosses) reportUnread(ctx context.Context, since, to time.Time, why string) error {
	if since.IsZero() {
		return nil // it was never read
	}
	if !to.After(since) {
		to = l.in.Now()
	}
	if !to.After(since) {
		to = since
	}
	if err := l.gaps.record(ctx); err != nil {
		return err
	}
	loss := lossOf(l.line, since, to, why).Affecting(l.in.Catalog.RulesReading(l.line))
	if err := l.in.Announce(ctx, loss); err != nil {
		return fmt.Errorf("alert that events of stream %s were lost: %w", l.line, err)
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

// after returns the sequences of spans after seq.
func after(spans []Span, seq uint64) []Span { return Without(spans, []Span{{Last: seq}}) }

// mostNamed is the largest number of subjects named in an alert.
const mostNamed = 5

// lossReason describes the loss of n events on subjects.
func lossReason(n int64, atMost bool, subjects []string) string {
	on := strings.Join(subjects[:min(len(subjects), mostNamed)], ", ")
	if more := len(subjects) - mostNamed; more > 0 {
		on += fmt.Sprintf(" and %d more", more)
	}
	what := fmt.Sprintf("lost %d events on %s", n, on)
	switch {
	case n == 1 && atMost:
		what = "lost a message, which may be an event on " + on
	case n == 1:
		what = "lost 1 event on " + on
	case atMost:
		what = fmt.Sprintf("lost %d messages, of which some or all may be events on %s,", n, on)
	}
	return what + " to a limit, a purge or a deletion before they were read"
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reportMissing alerts once that the unread messages of a deleted stream are lost, if err is ErrGone.
func (l *lineLosses) reportMissing(ctx context.Context, err error) error {
	if l.reportedMissing || !errors.Is(err, ErrGone) {
		return nil
	}
	cursor, _, err := l.in.Store.Cursor(ctx, l.line)
	if err == nil {
		err = l.reportUnread(ctx, since(cursor), l.in.Now(), "was deleted")
	}
	l.reportedMissing = err == nil
	return err
}
