package events

import (
	"context"
	"errors"
	"fmt"
	"slices"

	futurejobs "deadman/future_jobs"
)

// open starts a reader where the database says that the stream stands.
func (t *streamReader) open(ctx context.Context) error {
	// The revision is taken before the subjects, so that they are never older than it says.
	revision := t.in.Book.Revision()
	subjects := subjectsOf(t.in.Book, t.stream)
	if len(subjects) == 0 {
		return errReopenReader
	}
	cursor, err := t.loadCursor(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(subjects, t.subjects) || cursor.LastSeq < t.cursor.LastSeq {
		t.looked = 0 // that was about other subjects, or other rules
	}
	t.looked = max(t.looked, cursor.LastSeq)
	reader, err := t.in.Streams.Read(ctx, t.stream, t.looked, subjects)
	if err != nil {
		return err
	}
	t.reader, t.subjects, t.revision = reader, subjects, revision
	t.cursor, t.marked, t.goal = cursor, cursor.ReadThrough, markTarget{}
	t.losses.gone = after(t.losses.gone, cursor.LastSeq)
	t.gone = false
	if err := t.verifyStream(ctx); err != nil {
		return err
	}
	return t.account(ctx)
}

// verifyStream makes sure that the reader was opened on the stream that the cursor is about.
func (t *streamReader) verifyStream(ctx context.Context) error {
	info, err := t.in.Streams.Info(ctx, t.stream)
	if err == nil && !info.CreatedAt.Equal(t.cursor.StreamCreatedAt) {
		return errReopenReader
	}
	t.mu.Lock()
	t.now.Risk = info.Risk
	t.mu.Unlock()
	return err
}

// loadCursor returns the cursor, and makes it fit the stream that is there now.
func (t *streamReader) loadCursor(ctx context.Context) (futurejobs.Cursor, error) {
	info, err := t.in.Streams.Info(ctx, t.stream)
	if err != nil {
		return futurejobs.Cursor{}, err
	}
	cursor, err := t.storedCursor(ctx, info)
	if err != nil {
		return cursor, err
	}
	if other, err := t.isDifferentStream(ctx, cursor, info); err != nil || other {
		return t.resumeRecreated(ctx, cursor, info, err)
	}
	return cursor, nil
}

// isDifferentStream reports whether the stream is not the one that the cursor is about: it was created
// anew, it ends before the cursor, or where that stands it has a message of another time.
func (t *streamReader) isDifferentStream(ctx context.Context, cursor futurejobs.Cursor, info Info) (bool, error) {
	if info.LastSeq < cursor.LastSeq || !info.CreatedAt.Equal(cursor.StreamCreatedAt) {
		return true, nil
	}
	if cursor.LastSeq == 0 || cursor.LastAt.IsZero() || cursor.LastSeq < info.FirstSeq {
		return false, nil
	}
	seq, at, err := t.in.Streams.First(ctx, t.stream, cursor.LastSeq)
	return err == nil && seq == cursor.LastSeq && !at.Equal(cursor.LastAt), err
}

// storedCursor returns the cursor. A rule opens it with its save and does not know the stream's
// creation time; without one the stream is read from its start, and the rules leave out
// what is not for them.
func (t *streamReader) storedCursor(ctx context.Context, info Info) (futurejobs.Cursor, error) {
	cursor, ok, err := t.in.Store.Cursor(ctx, t.stream)
	if err == nil && (!ok || cursor.StreamCreatedAt.IsZero()) {
		err = t.in.Store.OpenCursor(ctx, futurejobs.Cursor{Stream: t.stream, StreamCreatedAt: info.CreatedAt})
		if err == nil {
			cursor, ok, err = t.in.Store.Cursor(ctx, t.stream)
		}
		if err == nil && !ok {
			err = errors.New("it was opened and is not there")
		}
	}
	if err != nil {
		return cursor, fmt.Errorf("cursor: %w", err)
	}
	return cursor, nil
}

// resumeRecreated goes on in a stream that is not the one that was read before, or was restored
// to an earlier state, from the first message after the last one that was applied.
func (t *streamReader) resumeRecreated(ctx context.Context, cursor futurejobs.Cursor, info Info, err error) (futurejobs.Cursor, error) {
	if err != nil {
		return cursor, err
	}
	to := cursor
	to.StreamCreatedAt, to.LastSeq = info.CreatedAt, 0
	if !cursor.LastAt.IsZero() {
		if to.LastSeq, err = t.in.Streams.Before(ctx, t.stream, cursor.LastAt); err != nil {
			return cursor, err
		}
	}
	if to.LastSeq > 0 { // the cursor is to fit its message again
		seq, at, err := t.in.Streams.First(ctx, t.stream, to.LastSeq)
		if err != nil {
			return cursor, err
		}
		if seq == to.LastSeq {
			to.LastAt = at
		}
	}
	if err := t.reportLoss(ctx, since(cursor), info.CreatedAt, "was recreated, or restored to an earlier state"); err != nil {
		return cursor, err
	}
	err = t.in.Store.ResetCursor(ctx, cursor, to)
	if errors.Is(err, futurejobs.ErrCursorMoved) {
		return cursor, errReopenReader
	}
	if err != nil {
		return cursor, fmt.Errorf("reset cursor: %w", err)
	}
	t.in.Log.Warn("a stream was recreated or restored; reading goes on after the last event applied, what was lost with the old stream was never seen",
		"stream", t.stream, "was_at", cursor.LastSeq, "goes_on_after", to.LastSeq, "last_event_at", cursor.LastAt)
	t.looked, t.losses.gone = 0, nil
	return to, nil
}
