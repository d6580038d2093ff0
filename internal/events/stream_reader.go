package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
var errReopenReader = errors.New("to be read anew")

// streamReader reads one line of a stream.
type streamReader struct {
	in      *Intake
	line    string // of the cursor, the mark and the rules
	stream  string // of the broker
	matcher lineMatcher
	stop    context.CancelFunc
	done    chan struct{} // closed when run has returned

	reader   Reader // nil: not open
	subjects []string
	revision int64 // of the subjects' rules
	cursor   futurejobs.Cursor
	marked   time.Time
	goal     markTarget
	looked   uint64    // all messages up to here are read; may be past the cursor
	passAt   time.Time // time of the next advance of the cursor to it
	firstSeq uint64    // of the stream, at the last advance
	firstAt  time.Time // time of the last advance
	gone     bool      // the alert about the missing stream was raised
	suspect  bool      // a rule of the line changed; the cursor may have moved for a rule that joined the line
	stale    bool      // the mark has a time from before a clock step and must be redone
	deaf     bool      // events were lost since the last mark
	unsure   bool      // a transaction failed since the reader was opened; it may have taken effect
	losses   losses
	takeMost int   // maximum events per transaction; 0: no reduced limit
	ahead    batch // read while the previous one was applied

	mu  sync.Mutex
	now Status
}

// markTarget is the end to be applied for the stream to be read through a time. A busy stream is never empty, but it
// passes its recorded end.
type markTarget struct {
	through time.Time // zero: no target
	end     uint64
}

func newStreamReader(in *Intake, line string) *streamReader {
	return &streamReader{
		in: in, line: line, stream: futurejobs.StreamOf(line), matcher: lineMatcher{in, line}, done: make(chan struct{}), now: Status{Line: line},
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

func (t *streamReader) status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
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
			if t.in.Book.SubjectsByStream()[t.line] == nil {
				return
			}
			wait(ctx, minPoll) // two readers of one stream must not race
		case err == nil:
			t.setErr(nil)
			pause = minBackoff
		case ctx.Err() == nil:
			t.close()
			t.setErr(errors.Join(err, t.reportStreamGone(ctx, err)))
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

// setErr records the error, and logs the beginning and the end of failures.
func (t *streamReader) setErr(err error) {
	t.mu.Lock()
	before := t.now.Err
	t.now.Err = err
	t.now.Seq, t.now.MarkedAt = t.cursor.LastSeq, t.marked
	t.mu.Unlock()
	switch {
	case err != nil && before == nil:
		t.in.Log.Warn("a stream cannot be read; trying again", "stream", t.line, "err", err)
	case err == nil && before != nil:
		t.in.Log.Info("a stream is read again", "stream", t.line)
	}
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
	if err := t.checkSubjects(); err != nil {
		return err
	}
	if err := t.checkCursor(ctx); err != nil {
		return err
	}
	t.present()
	got, err := t.nextBatch(ctx)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := t.checkLossWhileReading(ctx, got.loss); err != nil {
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
	return t.report(ctx)
}

// noteProgress records the progress of the stream: now if it is drained, otherwise the time of the last applied
// event.
func (t *streamReader) noteProgress() {
	at, left := t.in.Now(), t.reader.Left()+uint64(len(t.ahead.events))
	if last := t.cursor.LastAt; last.Before(at) && left > 0 {
		at = last
	}
	t.mu.Lock()
	t.now.Left = left
	t.mu.Unlock()
	t.readUpTo(at)
}

// noteApplied records the time of the last applied event while a batch is applied in parts.
func (t *streamReader) noteApplied() {
	at := t.in.Now()
	if last := t.cursor.LastAt; last.Before(at) {
		at = last
	}
	t.readUpTo(at)
}

// readUpTo records the time up to which the stream is read. It never goes back.
func (t *streamReader) readUpTo(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.After(t.now.CaughtUp) {
		t.now.CaughtUp = at
	}
}

// farAhead is the tolerance for times of the reader that are ahead of now.
const farAhead = 2 * time.Second

// present corrects times in the future, left by a clock that was ahead. The stream is then marked again, so that no
// mark is delayed until the clock reaches those times.
func (t *streamReader) present() {
	now := t.in.Now()
	if now.IsZero() {
		return
	}
	if t.marked.Sub(now) > farAhead || t.goal.through.Sub(now) > farAhead {
		t.marked, t.goal, t.stale = now, markTarget{}, true
	}
	if t.passAt.Sub(now) > advanceInterval || t.firstAt.After(now) {
		t.passAt, t.firstAt = now, time.Time{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.CaughtUp.Sub(now) > farAhead {
		t.now.CaughtUp = now
	}
}

// checkSubjects keeps the subjects in line with the rules: a reader of other subjects could move the cursor past
// events for a new rule.
func (t *streamReader) checkSubjects() error {
	revision := t.in.Book.Revision()
	if revision == t.revision {
		return nil
	}
	if !slices.Equal(t.subjects, subjectsOf(t.in.Book, t.line)) {
		return errReopenReader
	}
	t.suspect = t.suspect || t.in.Book.ChangedAt(t.line) > t.revision
	t.revision = revision
	return nil
}

// checkCursor reopens the reader if the cursor moved, after a change of the line's rules: a rule that joined the line may
// have moved it back, with unread events for this rule alone.
func (t *streamReader) checkCursor(ctx context.Context) error {
	if !t.suspect {
		return nil
	}
	c, ok, err := t.in.Store.Cursor(ctx, t.line)
	if err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	if !ok || c.LastSeq != t.cursor.LastSeq {
		return errReopenReader
	}
	t.suspect = false
	return nil
}

func subjectsOf(b Book, line string) []string {
	return slices.Compact(slices.Sorted(slices.Values(b.SubjectsByStream()[line])))
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
	grid, ok := t.in.Book.FinestGrids()[t.line]
	if !ok || grid <= 0 {
		return at, false
	}
	if t.stale {
		return t.marked, true
	}
	return grid.After(t.marked), true
}

// mark records that the stream was read through a time, if a mark is due and the stream is read that far.
func (t *streamReader) mark(ctx context.Context) error {
	if err := t.setMarkTarget(ctx); err != nil || t.goal.through.IsZero() {
		return err
	}
	if len(t.ahead.events) > 0 && t.ahead.events[0].Seq <= t.goal.end {
		return nil // it is read but not applied
	}
	drained, err := t.reader.Drained(ctx, t.cursor.LastSeq, t.goal.end)
	if err != nil || !drained {
		return err
	}
	if err := t.account(ctx); err != nil || len(t.losses.gone) > 0 {
		return err // the cursor must move past the losses first
	}
	t.looked = max(t.looked, t.goal.end)
	if err := t.recordGapIfNeeded(ctx); err != nil {
		return err
	}
	failpoints.Point("intake.mark")
	err = t.in.Store.MarkRead(ctx, t.line, t.cursor.LastSeq, t.goal.through)
	failpoints.Point("intake.marked")
	if errors.Is(err, futurejobs.ErrCursorMoved) {
		return errReopenReader
	}
	if err != nil {
		return fmt.Errorf("mark as read: %w", err)
	}
	t.marked, t.goal, t.stale = t.goal.through, markTarget{}, false
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
	if !t.goal.through.IsZero() || !ok || through.IsZero() || through.Before(due) {
		return nil
	}
	if err := t.in.Book.Refresh(ctx); err != nil {
		return fmt.Errorf("look at the rules: %w", err)
	}
	if err := t.checkSubjects(); err != nil {
		return err
	}
	end, ok, err := t.reader.End(ctx)
	if err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	if ok {
		t.goal = markTarget{through: through, end: end}
	}
	return nil
}
