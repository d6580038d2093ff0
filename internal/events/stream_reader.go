package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/failpoints"
)

// The limits and timing of reading.
const (
	maxBatch    = 2000                   // events per transaction
	pollTimeout = time.Second            // maximum blocking time for an event
	minPoll     = 20 * time.Millisecond  // the same while a mark is due and events are in transit
	minBackoff  = 100 * time.Millisecond // after the first failure; doubled with each
	maxBackoff  = 5 * time.Second
)

// errReopenReader means that reading must resume at the cursor with a new reader. It is not a failure.
var errReopenReader = errors.New("the reader must be reopened")

// streamReader reads one line of a stream.
type streamReader struct {
	in      *Intake
	line    string // of the cursor, the mark and the rules
	stream  string // of the broker
	matcher lineMatcher
	cursors cursorLoader
	gaps    *gapRecorder
	losses  *lineLosses
	status  *lineStatus
	stop    context.CancelFunc
	done    chan struct{} // closed when run has returned

	sub      subscription
	reader   Reader // nil: not open
	cursor   futurejobs.Cursor
	readMark readMark
	advances advanceSchedule
	readTo   uint64 // all messages up to here are read; may be past the cursor
	unsure   bool   // a transaction failed since the reader was opened; it may have taken effect
	maxTx    int    // maximum events per transaction; 0: no reduced limit
	ahead    batch  // read while the previous one was applied
	refused  refusedTriggers
}

func newStreamReader(in *Intake, line string) *streamReader {
	stream, gaps := futurejobs.StreamOf(line), &gapRecorder{in: in, line: line}
	losses := &lineLosses{in: in, line: line, gaps: gaps}
	return &streamReader{
		in: in, line: line, stream: stream, matcher: lineMatcher{in, line}, cursors: cursorLoader{in, line, stream, losses}, gaps: gaps, losses: losses,
		status: newLineStatus(in.Log, line), done: make(chan struct{}), refused: make(refusedTriggers),
	}
}

func (t *streamReader) stopped() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// run runs steps until ctx ends or no rule reads the line any more.
func (t *streamReader) run(ctx context.Context) {
	defer t.close()
	defer t.alertLast(ctx)
	pause := minBackoff
	for ctx.Err() == nil {
		err := t.step(ctx)
		switch {
		case errors.Is(err, errReopenReader):
			t.close()
			if t.in.Catalog.SubjectsByStream()[t.line] == nil {
				return
			}
			wait(ctx, minPoll) // two readers of one stream must not race
		case err == nil:
			t.status.setResult(ctx, nil, t.cursor.LastSeq, t.readMark.at, t.in.Now())
			pause = minBackoff
		case ctx.Err() == nil:
			t.close()
			t.status.setResult(ctx, errors.Join(err, t.losses.reportMissing(ctx, err)), t.cursor.LastSeq, t.readMark.at, t.in.Now())
			wait(ctx, pause)
			pause = min(2*pause, maxBackoff)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// open starts a reader at the stored cursor of the line.
func (t *streamReader) open(ctx context.Context) error {
	sub := newSubscription(t.in, t.line)
	if len(sub.subjects) == 0 {
		return errReopenReader
	}
	cursor, recreated, err := t.cursors.load(ctx)
	if err != nil {
		return err
	}
	if recreated {
		t.losses.spans = nil
	}
	if recreated || !slices.Equal(sub.subjects, t.sub.subjects) || cursor.LastSeq < t.cursor.LastSeq {
		t.readTo = 0 // it was for other subjects or rules
	}
	t.readTo = max(t.readTo, cursor.LastSeq)
	reader, err := t.in.Streams.Read(ctx, t.stream, t.readTo, sub.subjects)
	if err != nil {
		return err
	}
	t.reader, t.sub = reader, sub
	t.cursor, t.readMark.at, t.readMark.target = cursor, cursor.ReadThrough, markTarget{}
	t.losses.passThrough(cursor.LastSeq)
	t.losses.reportedMissing, t.unsure = false, false
	if err := t.verifyStream(ctx); err != nil {
		return err
	}
	return t.recordLosses(ctx)
}

// verifyStream verifies that the reader reads the stream of the cursor.
func (t *streamReader) verifyStream(ctx context.Context) error {
	info, err := t.in.Streams.Info(ctx, t.stream)
	if err == nil && !info.CreatedAt.Equal(t.cursor.StreamCreatedAt) {
		return errReopenReader
	}
	t.status.setRisk(info.Risk)
	return err
}

func (t *streamReader) close() {
	t.ahead = batch{}
	if t.reader != nil {
		t.reader.Close()
		t.reader = nil
	}
}

// step reads and applies the available events, blocking for up to the poll time, and marks the stream as read when a
// mark is due.
func (t *streamReader) step(ctx context.Context) error {
	if t.reader == nil {
		if err := t.open(ctx); err != nil {
			return err
		}
	}
	if err := t.sub.check(); err != nil {
		return err
	}
	if err := t.sub.checkCursor(ctx, t.cursor.LastSeq); err != nil {
		return err
	}
	t.correctFutureTimes()
	got, err := t.nextBatch(ctx)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := t.recordLoss(ctx, got.loss); err != nil {
		return err
	}
	if err := t.applyAndPrefetch(ctx, got); err != nil {
		return err
	}
	t.noteProgress()
	if err := t.mark(ctx); err != nil {
		return err
	}
	if len(got.events) == 0 {
		if err := t.advancePastUnmatched(ctx); err != nil {
			return err
		}
	}
	return t.alertLossesIfDue(ctx)
}

// noteProgress records the progress of the stream: now if it is drained, otherwise the time of the last applied
// event.
func (t *streamReader) noteProgress() {
	at, left := t.in.Now(), t.reader.Left()+uint64(len(t.ahead.events))
	if last := t.cursor.LastAt; last.Before(at) && left > 0 {
		at = last
	}
	t.status.setLeft(left)
	t.status.advanceCaughtUp(at)
}

// noteApplied records the time of the last applied event while a batch is applied in parts.
func (t *streamReader) noteApplied() {
	at := t.in.Now()
	if last := t.cursor.LastAt; last.Before(at) {
		at = last
	}
	t.status.advanceCaughtUp(at)
}

// correctFutureTimes corrects times in the future, left by a clock that was ahead.
func (t *streamReader) correctFutureTimes() {
	now := t.in.Now()
	if now.IsZero() {
		return
	}
	t.readMark.correctFuture(now)
	t.advances.correctFuture(now)
	t.status.correctFuture(now)
}

// pollFor returns the time to block for an event: at most until the next mark is due.
func (t *streamReader) pollFor() time.Duration {
	due, ok := t.markDue()
	if !ok {
		return pollTimeout
	}
	left := due.Sub(t.in.Now()) + time.Millisecond
	return max(minPoll, min(left, pollTimeout))
}

// markDue returns the time at which the stream must be marked as read: each slot at which a job may depend on it. A
// stream without dependent jobs is never marked.
func (t *streamReader) markDue() (at time.Time, ok bool) {
	grid, ok := t.in.Catalog.FinestGrids()[t.line]
	if !ok || grid <= 0 {
		return at, false
	}
	return t.readMark.dueAt(grid), true
}

// mark records that the stream was read through a time, if a mark is due and the stream is read that far.
func (t *streamReader) mark(ctx context.Context) error {
	if err := t.setMarkTarget(ctx); err != nil || t.readMark.target.through.IsZero() {
		return err
	}
	if len(t.ahead.events) > 0 && t.ahead.events[0].Seq <= t.readMark.target.end {
		return nil // it is read but not applied
	}
	drained, err := t.reader.Drained(ctx, t.cursor.LastSeq, t.readMark.target.end)
	if err != nil || !drained {
		return err
	}
	if err := t.recordLosses(ctx); err != nil || len(t.losses.spans) > 0 {
		return err // the cursor must move past the losses first
	}
	t.readTo = max(t.readTo, t.readMark.target.end)
	if err := t.gaps.recordBeforeMark(ctx, t.readMark.at); err != nil {
		return err
	}
	failpoints.Point("intake.mark")
	err = t.in.Store.MarkRead(ctx, t.line, t.cursor.LastSeq, t.readMark.target.through)
	failpoints.Point("intake.marked")
	if errors.Is(err, futurejobs.ErrCursorMoved) {
		return errReopenReader
	}
	if err != nil {
		return fmt.Errorf("mark as read: %w", err)
	}
	t.readMark.reachTarget()
	return nil
}

// setMarkTarget sets the next target once it is due.
//
//  1. It reads the time first: the following steps see all messages received before it.
//  2. It then refreshes the rules: a job that depends on an unread subject can only be due later than that.
//  3. It then queries the end of the stream.
func (t *streamReader) setMarkTarget(ctx context.Context) error {
	through := t.in.Now()
	due, ok := t.markDue()
	if !t.readMark.target.through.IsZero() || !ok || through.IsZero() || through.Before(due) {
		return nil
	}
	if err := t.in.Catalog.Refresh(ctx); err != nil {
		return fmt.Errorf("refresh the rules: %w", err)
	}
	if err := t.sub.check(); err != nil {
		return err
	}
	end, ok, err := t.reader.End(ctx)
	if err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	if ok {
		t.readMark.target = markTarget{through: through, end: end}
	}
	return nil
}

// advancePastUnmatched advances the cursor past unmatched messages at intervals, so that their later removal from the
// stream does not count as a loss.
func (t *streamReader) advancePastUnmatched(ctx context.Context) error {
	now := t.in.Now()
	if !t.advances.isDue(now) {
		return nil
	}
	info, err := t.in.Streams.Info(ctx, t.stream)
	if err != nil {
		return err
	}
	if !info.CreatedAt.Equal(t.cursor.StreamCreatedAt) {
		return errReopenReader
	}
	t.advances.schedule(now, info)
	if info.LastSeq <= t.cursor.LastSeq {
		return nil
	}
	drained, err := t.reader.Drained(ctx, t.cursor.LastSeq, info.LastSeq)
	if err != nil || !drained {
		return err
	}
	if err := t.recordLosses(ctx); err != nil {
		return err
	}
	t.readTo = info.LastSeq
	err = t.apply(ctx, futurejobs.EffectBatch{
		Stream: t.line, After: t.cursor.LastSeq, Last: info.LastSeq, LastAt: info.LastAt, RuleSet: t.sub.revision,
	}, 0)
	if errors.Is(err, futurejobs.ErrRulesChanged) {
		return nil // retried later
	}
	return err
}

// recordLosses queries the reader for losses, and records them.
func (t *streamReader) recordLosses(ctx context.Context) error {
	loss, err := t.reader.Lost(ctx)
	if err != nil {
		return fmt.Errorf("count the lost events of the stream: %w", err)
	}
	return t.recordLoss(ctx, loss)
}

// recordLoss records a loss of the stream, and the monitoring gap.
func (t *streamReader) recordLoss(ctx context.Context, loss Loss) error {
	if t.losses.add(loss, t.cursor, t.sub.subjects) == 0 {
		return nil
	}
	t.advances.advanceAtOnce() // in case no event moves the cursor past it
	return t.gaps.record(ctx)
}

// addPassedLosses records that the cursor moved past n lost events.
func (t *streamReader) addPassedLosses(n int64) {
	if n == 0 {
		return
	}
	if t.cursor.Lost == 0 {
		t.cursor.LostSince = since(t.cursor)
	}
	t.cursor.Lost += n
	if o := t.in.Observer; o != nil {
		o.Ingested(Lost, int(n))
	}
}

// alertLossesIfDue raises the alert about lost events before the cursor, at most once per lossInterval.
func (t *streamReader) alertLossesIfDue(ctx context.Context) error {
	if t.cursor.Lost == 0 || !t.losses.isAlertDue(t.in.Now()) {
		return nil
	}
	return t.alertLosses(ctx)
}

// alertLosses raises the alert about lost events before the cursor.
func (t *streamReader) alertLosses(ctx context.Context) error {
	if err := t.losses.alert(ctx, t.cursor, t.sub.subjects); err != nil {
		return err
	}
	t.cursor.Lost, t.cursor.LostSince = 0, time.Time{}
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
