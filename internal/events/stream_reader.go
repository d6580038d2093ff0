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
	takeAtOnce   = 2000                   // events of one transaction
	quiet        = time.Second            // the longest wait for an event
	settleIn     = 20 * time.Millisecond  // the wait while a mark is due and events are on their way
	firstBackoff = 100 * time.Millisecond // after the first failure; doubled with each
	lastBackoff  = 5 * time.Second
)

// errReopen means that reading goes on at the cursor with a new reader. It is no failure.
var errReopen = errors.New("to be read anew")

// tap reads one stream.
type tap struct {
	in     *Intake
	stream string
	stop   context.CancelFunc
	done   chan struct{} // closed when run has returned

	reader   Reader // nil: to be opened
	subjects []string
	revision int64 // of the rules that the subjects belong to
	cursor   futurejobs.Cursor
	marked   time.Time
	goal     goal
	looked   uint64    // up to here nothing is unread; it may be past the cursor
	passAt   time.Time // when the cursor is put there next
	firstSeq uint64    // of the stream, when it was put there last
	firstAt  time.Time // when that was
	gone     bool      // it was said that the stream is not there
	stale    bool      // the mark is of another time, and is to be made anew
	deaf     bool      // something was lost that no mark was made after
	losses   losses
	takeMost int  // events that are applied at a time; 0: takeAtOnce
	ahead    haul // read while the one before was applied

	mu  sync.Mutex
	now Status
}

// goal is what has to be applied for the stream to be read through an instant. A stream that
// events come from all the time has no moment at which it is empty; but it passes its end.
type goal struct {
	through time.Time // zero: there is no goal
	end     uint64
}

func newTap(in *Intake, stream string) *tap {
	return &tap{in: in, stream: stream, done: make(chan struct{}), now: Status{Stream: stream}}
}

func (t *tap) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (t *tap) status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// run steps until ctx ends or no rule listens to the stream any more.
func (t *tap) run(ctx context.Context) {
	defer t.close()
	defer t.alertLast(ctx)
	pause := firstBackoff
	for ctx.Err() == nil {
		err := t.step(ctx)
		switch {
		case errors.Is(err, errReopen):
			t.close()
			if t.in.Book.Reads()[t.stream] == nil {
				return
			}
			wait(ctx, settleIn) // two readers of one stream must not race each other
		case err == nil:
			t.say(nil)
			pause = firstBackoff
		case ctx.Err() == nil:
			t.close()
			t.say(errors.Join(err, t.mourn(ctx, err)))
			wait(ctx, pause)
			pause = min(2*pause, lastBackoff)
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

// say logs when reading begins to fail and when it works again.
func (t *tap) say(err error) {
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

func (t *tap) close() {
	t.ahead = haul{}
	if t.reader != nil {
		t.reader.Close()
		t.reader = nil
	}
}

// step takes in what has arrived, after waiting for it a while, and marks how far the
// stream was read when that is due.
func (t *tap) step(ctx context.Context) error {
	if t.reader == nil {
		if err := t.open(ctx); err != nil {
			return err
		}
	}
	if err := t.follow(); err != nil {
		return err
	}
	t.present()
	got, err := t.next(ctx)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := t.missed(ctx, got.loss); err != nil {
		return err
	}
	if err := t.takeAndRead(ctx, got); err != nil {
		return err
	}
	t.caughtUp()
	if err := t.mark(ctx); err != nil {
		return err
	}
	if len(got.events) == 0 {
		if err := t.pass(ctx); err != nil {
			return err
		}
	}
	return t.report(ctx)
}

// caughtUp notes how far the stream is read: to now where nothing is left of it, and else to the
// last event that was applied.
func (t *tap) caughtUp() {
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

// farAhead is how far ahead of now the tap's own instants may be.
const farAhead = 2 * time.Second

// present takes what the tap knows of the future for what it is: by a clock that was ahead. The stream is marked as
// read anew, and no mark waits for the clock to get there.
func (t *tap) present() {
	now := t.in.Now()
	if now.IsZero() {
		return
	}
	if t.marked.Sub(now) > farAhead || t.goal.through.Sub(now) > farAhead {
		t.marked, t.goal, t.stale = now, goal{}, true
	}
	if t.passAt.Sub(now) > passEvery || t.firstAt.After(now) {
		t.passAt, t.firstAt = now, time.Time{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now.CaughtUp.Sub(now) > farAhead {
		t.now.CaughtUp = now
	}
}

// follow keeps the subjects those of the rules: with a reader of other subjects, the cursor
// would pass events that a new rule waits for.
func (t *tap) follow() error {
	revision := t.in.Book.Revision()
	if revision == t.revision {
		return nil
	}
	if !slices.Equal(t.subjects, subjectsOf(t.in.Book, t.stream)) {
		return errReopen
	}
	t.revision = revision
	return nil
}

func subjectsOf(b Book, stream string) []string {
	return slices.Compact(slices.Sorted(slices.Values(b.Reads()[stream])))
}

// patience is how long to wait for an event: never past the time at which a mark is due.
func (t *tap) patience() time.Duration {
	due, ok := t.due()
	if !ok {
		return quiet
	}
	left := due.Sub(t.in.Now()) + time.Millisecond
	return max(settleIn, min(left, quiet))
}

// due is when the stream is to be marked as read: at each slot that a job may wait for.
// A stream that no job waits for is never marked.
func (t *tap) due() (at time.Time, ok bool) {
	grid, ok := t.in.Book.Finest()[t.stream]
	if !ok || grid <= 0 {
		return at, false
	}
	if t.stale {
		return t.marked, true
	}
	return grid.After(t.marked), true
}

// mark records that the stream was read through an instant, if that is due and true.
func (t *tap) mark(ctx context.Context) error {
	if err := t.aim(ctx); err != nil || t.goal.through.IsZero() {
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
	if err := t.hear(ctx); err != nil {
		return err
	}
	failpoints.Here("intake.mark")
	err = t.in.Ledger.MarkRead(ctx, t.stream, t.cursor.LastSeq, t.goal.through)
	failpoints.Here("intake.marked")
	if errors.Is(err, futurejobs.ErrMoved) {
		return errReopen
	}
	if err != nil {
		return fmt.Errorf("mark as read: %w", err)
	}
	t.marked, t.goal, t.stale = t.goal.through, goal{}, false
	return nil
}

// aim sets the next goal once it is due.
//
//  1. The time is taken first: what came in before it is seen by what follows.
//  2. The rules are looked at next: a job that waits for a subject which is not being read
//     can only be due later than that.
//  3. Then the stream is asked for its end.
func (t *tap) aim(ctx context.Context) error {
	through := t.in.Now()
	due, ok := t.due()
	if !t.goal.through.IsZero() || !ok || through.IsZero() || through.Before(due) {
		return nil
	}
	if err := t.in.Book.Refresh(ctx); err != nil {
		return fmt.Errorf("look at the rules: %w", err)
	}
	if err := t.follow(); err != nil {
		return err
	}
	end, ok, err := t.reader.End(ctx)
	if err != nil {
		return fmt.Errorf("find the end: %w", err)
	}
	if ok {
		t.goal = goal{through: through, end: end}
	}
	return nil
}
