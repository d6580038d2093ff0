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

// How a stream is read.
const (
	maxBatch    = 2000                   // events of one transaction
	pollTimeout = time.Second            // the longest wait for an event
	minPoll     = 20 * time.Millisecond  // the wait while a mark is due and events are on their way
	minBackoff  = 100 * time.Millisecond // after the first failure; doubled with each
	maxBackoff  = 5 * time.Second
)

// errReopenReader means that reading goes on at the cursor with a new reader. It is no failure.
var errReopenReader = errors.New("to be read anew")

// streamReader reads one stream.
type streamReader struct {
	in     *Intake
	stream string
	stop   context.CancelFunc
	done   chan struct{} // closed when run has returned

	reader   Reader // nil: to be opened
	subjects []string
	revision int64 // of the rules that the subjects belong to
	cursor   futurejobs.Cursor
	marked   time.Time
	goal     markTarget
	looked   uint64    // up to here nothing is unread; it may be past the cursor
	passAt   time.Time // when the cursor is put there next
	firstSeq uint64    // of the stream, when it was put there last
	firstAt  time.Time // when that was
	gone     bool      // it was said that the stream is not there
	stale    bool      // the mark is of another time, and is to be made anew
	deaf     bool      // something was lost that no mark was made after
	losses   losses
	takeMost int   // events that are applied at a time; 0: takeAtOnce
	ahead    batch // read while the one before was applied

	mu  sync.Mutex
	now Status
}

// markTarget is what has to be applied for the stream to be read through an instant. A stream that
// events come from all the time has no moment at which it is empty; but it passes its end.
type markTarget struct {
	through time.Time // zero: there is no goal
	end     uint64
}

func newStreamReader(in *Intake, stream string) *streamReader {
	return &streamReader{in: in, stream: stream, done: make(chan struct{}), now: Status{Stream: stream}}
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

// run steps until ctx ends or no rule listens to the stream any more.
func (t *streamReader) run(ctx context.Context) {
	defer t.close()
	defer t.alertLast(ctx)
	pause := minBackoff
	for ctx.Err() == nil {
		err := t.step(ctx)
		switch {
		case errors.Is(err, errReopenReader):
			t.close()
			if t.in.Book.SubjectsByStream()[t.stream] == nil {
				return
			}
			wait(ctx, minPoll) // two readers of one stream must not race each other
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

// setErr logs when reading begins to fail and when it works again.
func (t *streamReader) setErr(err error) {
	t.mu.Lock()
	before := t.now.Err
	t.now.Err = err
	t.now.Seq, t.now.MarkedAt = t.cursor.LastSeq, t.marked
	t.mu.Unlock()
	switch {
	case err != nil && before == nil:
		t.in.Log.Warn("a stream cannot be read; trying again", "stream", t.stream, "err", err)
	case err == nil && before != nil:
		t.in.Log.Info("a stream is read again", "stream", t.stream)
	}
}

func (t *streamReader) close() {
	t.ahead = batch{}
	if t.reader != nil {
		t.reader.Close()
		t.reader = nil
	}
}

// step takes in what has arrived, after waiting for it a while, and marks how far the
// stream was read when that is due.
func (t *streamReader) step(ctx context.Context) error {
	if t.reader == nil {
		if err := t.open(ctx); err != nil {
			return err
		}
	}
	if err := t.checkSubjects(); err != nil {
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

// noteProgress notes how far the stream is read: to now where nothing is left of it, and else to the
// last event that was applied.
func (t *streamReader) noteProgress() {
	at, left := t.in.Now(), t.reader.Left()+uint64(len(t.ahead.events))
	if last := t.cursor.LastAt; last.Before(at) && left > 0 {
		at = last
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Left = left
	if at.After(t.now.CaughtUp) {
		t.now.CaughtUp = at
	}
}

// noteApplied notes the last event that was applied while events that were read together are applied in parts.
func (t *streamReader) noteApplied() {
	at := t.in.Now()
	if last := t.cursor.LastAt; last.Before(at) {
		at = last
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.After(t.now.CaughtUp) {
		t.now.CaughtUp = at
	}
}

// farAhead is how far ahead of now the tap's own instants may be.
const farAhead = 2 * time.Second

// present takes what the tap knows of the future for what it is: by a clock that was ahead. The stream is marked as
// read anew, and no mark waits for the clock to get there.
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

// checkSubjects keeps the subjects those of the rules: with a reader of other subjects, the cursor
// would pass events that a new rule waits for.
func (t *streamReader) checkSubjects() error {
	revision := t.in.Book.Revision()
	if revision == t.revision {
		return nil
	}
	if !slices.Equal(t.subjects, subjectsOf(t.in.Book, t.stream)) {
		return errReopenReader
	}
	t.revision = revision
	return nil
}

func subjectsOf(b Book, stream string) []string {
	return slices.Compact(slices.Sorted(slices.Values(b.SubjectsByStream()[stream])))
}

// pollFor is how long to wait for an event: never past the time at which a mark is due.
func (t *streamReader) pollFor() time.Duration {
	due, ok := t.markDue()
	if !ok {
		return pollTimeout
	}
	left := due.Sub(t.in.Now()) + time.Millisecond
	return max(minPoll, min(left, pollTimeout))
}

// markDue is when the stream is to be marked as read: at each slot that a job may wait for.
// A stream that no job waits for is never marked.
func (t *streamReader) markDue() (at time.Time, ok bool) {
	grid, ok := t.in.Book.FinestGrids()[t.stream]
	if !ok || grid <= 0 {
		return at, false
	}
	if t.stale {
		return t.marked, true
	}
	return grid.After(t.marked), true
}

// mark records that the stream was read through an instant, if that is due and true.
func (t *streamReader) mark(ctx context.Context) error {
	if err := t.setMarkTarget(ctx); err != nil || t.goal.through.IsZero() {
		return err
	}
	if len(t.ahead.events) > 0 && t.ahead.events[0].Seq <= t.goal.end {
		return nil // it is read, and not applied
	}
	drained, err := t.reader.Drained(ctx, t.cursor.LastSeq, t.goal.end)
	if err != nil || !drained {
		return err
	}
	if err := t.account(ctx); err != nil || len(t.losses.gone) > 0 {
		return err // the cursor is put past what is lost first
	}
	t.looked = max(t.looked, t.goal.end)
	if err := t.recordGapIfNeeded(ctx); err != nil {
		return err
	}
	failpoints.Point("intake.mark")
	err = t.in.Store.MarkRead(ctx, t.stream, t.cursor.LastSeq, t.goal.through)
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

// setMarkTarget sets the next goal once it is due.
//
//  1. The time is taken first: what came in before it is seen by what follows.
//  2. The rules are looked at next: a job that waits for a subject which is not being read
//     can only be due later than that.
//  3. Then the stream is asked for its end.
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
