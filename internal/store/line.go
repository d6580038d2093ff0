package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// lineChange is the change of a rule from one line of a stream to the other, in progress.
type lineChange struct {
	rebinding
	cursors map[string]futurejobs.Cursor // of the lines that the rule leaves, by the line that it joins
}

// keepLines returns reads on the lines by which the rule's versions read the streams already: Rebind moves all versions
// of a rule at once, where the old line is.
func keepLines(before, reads []rules.StreamBinding) []rules.StreamBinding {
	reads = slices.Clone(reads)
	for i, r := range reads {
		for _, b := range before {
			if futurejobs.StreamOf(b.Stream) == futurejobs.StreamOf(r.Stream) {
				reads[i].Stream = b.Stream
			}
		}
	}
	return reads
}

// continues returns the read that a new read continues on another line of the stream: one of the same subject that the
// new reads do not contain.
func continues(r rules.StreamBinding, before, after []rules.StreamBinding) (old rules.StreamBinding, ok bool) {
	if alike(before, r) >= 0 {
		return old, false
	}
	i := slices.IndexFunc(before, func(b rules.StreamBinding) bool {
		return b.Subject == r.Subject && futurejobs.StreamOf(b.Stream) == futurejobs.StreamOf(r.Stream) && alike(after, b) < 0
	})
	if i < 0 {
		return old, false
	}
	return before[i], true
}

// join makes a line be read from the position of the line that the rule leaves. all are the current reads of all rules.
//
//  1. A line that no rule reads gets the cursor of the other line, with its mark.
//  2. A line that is not past that position stays where it is: the rule skips the events before.
//  3. A line that is past it moves back. The reads of other rules start at its old cursor from then on.
//
// In the last two cases the read-through time is cleared. Gaps of the old line count for the new one.
func (l *lineChange) join(ctx context.Context, line, left string, all []versionReads) error {
	old, err := l.cursor(ctx, left)
	if err != nil {
		return err
	}
	if old == nil { // nothing of it was read
		old = &futurejobs.Cursor{}
	}
	now, err := l.cursor(ctx, line)
	if err != nil {
		return err
	}
	l.cursors[line] = *old
	if now == nil || !slices.ContainsFunc(all, func(v versionReads) bool { return v.has(line) }) {
		return l.copy(ctx, line, *old)
	}
	if !now.StreamCreatedAt.IsZero() && !old.StreamCreatedAt.IsZero() && !now.StreamCreatedAt.Equal(old.StreamCreatedAt) {
		return recreated(line)
	}
	now.ReceivingSince, now.ReadThrough = later(now.ReceivingSince, old.ReceivingSince), time.Time{}
	if now.LastSeq > old.LastSeq {
		if err := l.keepBehind(ctx, *now, all); err != nil {
			return err
		}
		now.LastSeq, now.LastAt = old.LastSeq, old.LastAt
	}
	return l.copy(ctx, line, *now)
}

// cursor returns the cursor of a line; nil: it has none.
func (l *lineChange) cursor(ctx context.Context, line string) (*futurejobs.Cursor, error) {
	c := futurejobs.Cursor{Stream: line}
	err := readCursor(l.tx.QueryRowContext(ctx, `SELECT `+cursorColumns+` FROM event_cursor WHERE stream = $1`, line), &c)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &c, err
}

// copy gives a line the position, the mark and the gaps of a cursor.
func (l *lineChange) copy(ctx context.Context, line string, c futurejobs.Cursor) error {
	_, err := exec(ctx, l.tx, `
INSERT INTO event_cursor (stream, last_seq, last_at, stream_created_at, read_through_at, heard_since, revision) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (stream) DO UPDATE SET last_seq = excluded.last_seq, last_at = excluded.last_at, stream_created_at = excluded.stream_created_at,
	read_through_at = excluded.read_through_at, heard_since = excluded.heard_since, revision = excluded.revision`,
		line, int64(c.LastSeq), when(c.LastAt), when(c.StreamCreatedAt), when(c.ReadThrough), when(c.ReceivingSince), l.revision)
	return err
}

// starts returns the reads of a version with those that changed their line starting at the cursor of the line that they
// left, at the earliest.
func (l *lineChange) starts(before, reads []rules.StreamBinding) []rules.StreamBinding {
	reads = slices.Clone(reads)
	for i, r := range reads {
		old, ok := continues(r, before, reads)
		if !ok {
			continue
		}
		old, _ = notBefore(old, l.cursors[r.Stream])
		old.Stream = r.Stream
		reads[i] = old
	}
	return reads
}
