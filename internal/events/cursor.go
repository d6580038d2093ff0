package events

import (
	"context"
	"errors"
	"fmt"
	"slices"

	futurejobs "deadman/future_jobs"
)

// open starts a reader at the stored cursor of the line.
func (t *streamReader) open(ctx context.Context) error {
	// The revision is read before the subjects, so that the subjects are never older.
	revision := t.in.Book.Revision()
	subjects := subjectsOf(t.in.Book, t.line)
	if len(subjects) == 0 {
		return errReopenReader
	}
	cursor, err := t.loadCursor(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(subjects, t.subjects) || cursor.LastSeq < t.cursor.LastSeq {
		t.looked = 0 // it was for other subjects or rules
	}
	t.looked = max(t.looked, cursor.LastSeq)
	reader, err := t.in.Streams.Read(ctx, t.stream, t.looked, subjects)
	if err != nil {
		return err
	}
	t.reader, t.subjects, t.revision, t.suspect = reader, subjects, revision, false
	t.cursor, t.marked, t.goal = cursor, cursor.ReadThrough, markTarget{}
	t.losses.gone = after(t.losses.gone, cursor.LastSeq)
	t.gone, t.unsure = false, false
	if err := t.verifyStream(ctx); err != nil {
		return err
	}
	return t.account(ctx)
}

// verifyStream verifies that the reader reads the stream of the cursor.
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

// loadCursor returns the cursor, adapted to the current stream.
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

// isDifferentStream reports whether the cursor belongs to another stream: the stream was recreated, ends before the
// cursor, or has a message with another time at the cursor.
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

// storedCursor returns the stored cursor. A rule creates it when it is saved and does not know the stream's creation
// time; without one the stream is read from its start, and the rules skip events that are not for them.
func (t *streamReader) storedCursor(ctx context.Context, info Info) (futurejobs.Cursor, error) {
	cursor, ok, err := t.in.Store.Cursor(ctx, t.line)
	if err == nil && (!ok || cursor.StreamCreatedAt.IsZero()) {
		err = t.in.Store.OpenCursor(ctx, futurejobs.Cursor{Stream: t.line, StreamCreatedAt: info.CreatedAt})
		if err == nil {
			cursor, ok, err = t.in.Store.Cursor(ctx, t.line)
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

// resumeRecreated resumes in a stream that was recreated, or restored to an earlier state, at the first message after
// the last applied one.
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
	if to.LastSeq > 0 { // the cursor must match a message again
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
		"stream", t.line, "was_at", cursor.LastSeq, "goes_on_after", to.LastSeq, "last_event_at", cursor.LastAt)
	t.looked, t.losses.gone = 0, nil
	return to, nil
}
