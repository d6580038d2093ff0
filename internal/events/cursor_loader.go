package events

import (
	"context"
	"errors"
	"fmt"

	futurejobs "deadman/future_jobs"
)

// cursorLoader loads the cursor of a line.
type cursorLoader struct {
	in     *Intake
	line   string
	stream string
	losses *lineLosses
}

// load returns the cursor, adapted to the current stream. recreated means that the cursor was for another stream.
func (l cursorLoader) load(ctx context.Context) (cursor futurejobs.Cursor, recreated bool, err error) {
	info, err := l.in.Streams.Info(ctx, l.stream)
	if err != nil {
		return cursor, false, err
	}
	if cursor, err = l.stored(ctx, info); err != nil {
		return cursor, false, err
	}
	recreated, err = l.isDifferentStream(ctx, cursor, info)
	if err != nil || !recreated {
		return cursor, false, err
	}
	// The stream may have grown before the cursor was read, and another node may have applied its new events.
	if info, err = l.in.Streams.Info(ctx, l.stream); err != nil {
		return cursor, false, err
	}
	if recreated, err = l.isDifferentStream(ctx, cursor, info); err == nil && recreated {
		cursor, err = l.resumeRecreated(ctx, cursor, info)
	}
	return cursor, recreated, err
}

// isDifferentStream reports whether the cursor belongs to another stream: the stream was recreated, ends before the
// cursor, or has a message with another time at the cursor.
func (l cursorLoader) isDifferentStream(ctx context.Context, cursor futurejobs.Cursor, info Info) (bool, error) {
	if info.LastSeq < cursor.LastSeq || !info.CreatedAt.Equal(cursor.StreamCreatedAt) {
		return true, nil
	}
	if cursor.LastSeq == 0 || cursor.LastAt.IsZero() || cursor.LastSeq < info.FirstSeq {
		return false, nil
	}
	seq, at, err := l.in.Streams.First(ctx, l.stream, cursor.LastSeq)
	return err == nil && seq == cursor.LastSeq && !at.Equal(cursor.LastAt), err
}

// stored returns the stored cursor. A rule creates it when it is saved and does not know the stream's creation
// time; without one the stream is read from its start, and the rules skip events that are not for them.
func (l cursorLoader) stored(ctx context.Context, info Info) (futurejobs.Cursor, error) {
	cursor, ok, err := l.in.Store.Cursor(ctx, l.line)
	if err == nil && (!ok || cursor.StreamCreatedAt.IsZero()) {
		err = l.in.Store.OpenCursor(ctx, futurejobs.Cursor{Stream: l.line, StreamCreatedAt: info.CreatedAt})
		if err == nil {
			cursor, ok, err = l.in.Store.Cursor(ctx, l.line)
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
func (l cursorLoader) resumeRecreated(ctx context.Context, cursor futurejobs.Cursor, info Info) (to futurejobs.Cursor, err error) {
	to = cursor
	to.StreamCreatedAt, to.LastSeq = info.CreatedAt, 0
	if !cursor.LastAt.IsZero() {
		if to.LastSeq, err = l.in.Streams.Before(ctx, l.stream, cursor.LastAt); err != nil {
			return cursor, err
		}
	}
	if to.LastSeq > 0 { // the cursor must match a message again
		seq, at, err := l.in.Streams.First(ctx, l.stream, to.LastSeq)
		if err != nil {
			return cursor, err
		}
		if seq == to.LastSeq {
			to.LastAt = at
		}
	}
	if err := l.losses.reportUnread(ctx, since(cursor), info.CreatedAt, "was recreated, or restored to an earlier state"); err != nil {
		return cursor, err
	}
	err = l.in.Store.ResetCursor(ctx, cursor, to)
	if errors.Is(err, futurejobs.ErrCursorMoved) {
		return cursor, errReopenReader
	}
	if err != nil {
		return cursor, fmt.Errorf("reset cursor: %w", err)
	}
	l.in.Log.Warn("a stream was recreated or restored; reading continues after the last applied event; unread events of the old stream are lost",
		"stream", l.line, "was_at", cursor.LastSeq, "continues_after", to.LastSeq, "last_event_at", cursor.LastAt)
	return to, nil
}
