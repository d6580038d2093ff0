package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// advance moves a stream's cursor and counts the jobs that its events created and the events that the stream lost. No
// row means that another node moved it.
const advance = `
UPDATE event_cursor SET last_seq = $1, last_at = coalesce($2, last_at), created = created + $3,
	lost = lost + CAST($6 AS bigint),
	lost_since = CASE WHEN CAST($6 AS bigint) > 0 THEN coalesce(lost_since, last_at, stream_created_at) ELSE lost_since END,
	gate_until = NULL
WHERE stream = $4 AND last_seq = $5`

// knownBytes bounds the bodies of the jobs that one batch of events changes. They are held in memory and written again;
// SQLite, with its single writer, takes about a second for this size.
const knownBytes = 32 << 20

// errKnownTooLarge makes the caller halve a batch of events.
var errKnownTooLarge = fmt.Errorf("%w: more than %d bytes are known of its jobs", futurejobs.ErrTooSlow, knownBytes)

// measure adds up the sizes of the jobs that are read for a batch of events.
type measure struct {
	isBounded bool
	jobs      int
	bytes     int
}

func measuring(b futurejobs.EffectBatch) *measure { return &measure{isBounded: b.Stream != ""} }

// add returns errKnownTooLarge if the bodies are too large. A single job may have any size.
func (m *measure) add(j *futurejobs.Job) error {
	m.jobs, m.bytes = m.jobs+1, m.bytes+j.Size()
	if m.isBounded && m.jobs > 1 && m.bytes > knownBytes {
		return errKnownTooLarge
	}
	return nil
}

const cursorColumns = `stream, last_seq, last_at, stream_created_at, read_through_at, heard_since, created, lost, lost_since`

func readCursor(row scanner, c *futurejobs.Cursor) error {
	return row.Scan(&c.Stream, &c.LastSeq, at(&c.LastAt), at(&c.StreamCreatedAt), at(&c.ReadThrough), at(&c.ReceivingSince), &c.Created,
		&c.Lost, at(&c.LostSince))
}

// CursorStore keeps how far each stream is applied and read.
type CursorStore struct{ *database }

// Cursor implements futurejobs.EffectStore.
func (s *CursorStore) Cursor(ctx context.Context, stream string) (c futurejobs.Cursor, ok bool, err error) {
	ctx, cancel := withDBTimeout(ctx)
	defer cancel()
	err = readCursor(s.read.QueryRowContext(ctx, `SELECT `+cursorColumns+` FROM event_cursor WHERE stream = $1`, stream), &c)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return c, false, nil
	case err != nil:
		return c, false, wrapErr("cursor", err)
	}
	return c, true, nil
}

// OpenCursor implements futurejobs.EffectStore. For a cursor that a rule's save opened, it sets the stream's creation
// time.
func (s *CursorStore) OpenCursor(ctx context.Context, c futurejobs.Cursor) error {
	if _, err := exec(ctx, s.db, `
INSERT INTO event_cursor (stream, last_seq, last_at, stream_created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (stream) DO UPDATE SET stream_created_at = excluded.stream_created_at
WHERE event_cursor.stream_created_at IS NULL`,
		c.Stream, int64(c.LastSeq), when(c.LastAt), when(c.StreamCreatedAt)); err != nil {
		return wrapErr("open cursor", err)
	}
	return nil
}

// HoldOff implements futurejobs.EffectStore.
func (s *CursorStore) HoldOff(ctx context.Context, stream string) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		_, err := exec(ctx, tx, `UPDATE event_cursor SET gate_until = $1 WHERE stream = $2`, now.Add(holdOff), stream)
		return err
	})
	if err != nil {
		return wrapErr("hold changes of rules off", err)
	}
	return nil
}

// HoldTick implements scheduler.CursorStore. It locks the cursor before it reads the rule, and a change locks the
// cursor first: so the change either waits for the hold or is seen by it.
func (s *CursorStore) HoldTick(ctx context.Context, ruleID int32, revision int64) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if err := s.checkRuleSetForOlderNodes(ctx, tx, revision, now); err != nil {
			return err
		}
		n, err := exec(ctx, tx, `UPDATE event_cursor SET gate_until = $1 WHERE stream = $2 AND (gate_until IS NULL OR gate_until <= $3)`,
			now.Add(futurejobs.HoldTickFor), futurejobs.TickStream(ruleID), now)
		if err != nil {
			return err
		}
		if n == 0 {
			return futurejobs.ErrHeld
		}
		var valid bool
		if err := tx.QueryRowContext(ctx, `SELECT count(*) > 0 FROM rule WHERE id = $1 AND revision <= $2 AND deleted_at IS NULL`, ruleID, revision).Scan(&valid); err != nil {
			return err
		}
		if !valid {
			return futurejobs.ErrRulesChanged
		}
		return nil
	})
	if err != nil {
		return wrapErr("hold changes of a rule off", err)
	}
	return nil
}

// ReleaseTick implements scheduler.CursorStore.
func (s *CursorStore) ReleaseTick(ctx context.Context, ruleID int32) error {
	if _, err := exec(ctx, s.db, `UPDATE event_cursor SET gate_until = NULL WHERE stream = $1`, futurejobs.TickStream(ruleID)); err != nil {
		return wrapErr("let changes of a rule go on", err)
	}
	return nil
}

// ResetCursor implements futurejobs.EffectStore.
func (s *CursorStore) ResetCursor(ctx context.Context, old, to futurejobs.Cursor) error {
	n, err := exec(ctx, s.db, `
UPDATE event_cursor SET last_seq = $1, last_at = $2, stream_created_at = $3
WHERE stream = $4 AND last_seq = $5 AND stream_created_at IS NOT DISTINCT FROM $6`,
		int64(to.LastSeq), when(to.LastAt), when(to.StreamCreatedAt), old.Stream, int64(old.LastSeq), when(old.StreamCreatedAt))
	if err == nil && n == 0 {
		err = futurejobs.ErrCursorMoved
	}
	if err != nil {
		return wrapErr("reset cursor", err)
	}
	return nil
}

// MarkRead implements futurejobs.EffectStore. It never moves back, except from the future: a mark after the database's
// time is from a clock that was ahead.
func (s *CursorStore) MarkRead(ctx context.Context, stream string, seq uint64, through time.Time) error {
	n, err := exec(ctx, s.db, `
UPDATE event_cursor SET read_through_at = CASE WHEN read_through_at > $1 AND read_through_at <= now() THEN read_through_at ELSE $1 END
WHERE stream = $2 AND last_seq = $3`, through, stream, int64(seq))
	if err == nil && n == 0 {
		err = futurejobs.ErrCursorMoved
	}
	if err != nil {
		return wrapErr("mark read", err)
	}
	return nil
}

// lossTries bounds the moves of an alert of lost events to the next millisecond if an alert of that time exists.
const lossTries = 100

// ReportLost implements futurejobs.EffectStore.
func (s *CursorStore) ReportLost(ctx context.Context, stream string, n int64, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error) {
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		raised = false
		rows, err := exec(ctx, tx, `
UPDATE event_cursor SET lost = lost - $1, lost_since = CASE WHEN lost > $1 THEN lost_since END WHERE stream = $2 AND lost >= $1`, n, stream)
		if err != nil || rows == 0 {
			return err
		}
		r := r
		for range lossTries {
			if a, raised, err = s.raise(ctx, tx, r, now); raised || err != nil {
				return err
			}
			r.Since = r.Since.Add(time.Millisecond)
		}
		return fmt.Errorf("there are %d alerts of this time already", lossTries)
	})
	if err != nil {
		return a, false, wrapErr("report lost events", err)
	}
	return a, raised, nil
}

// TickCursors returns the cursors of rules' ticks, by futurejobs.TickStream.
func (s *CursorStore) TickCursors(ctx context.Context) (map[string]futurejobs.Cursor, error) {
	all, err := query(ctx, s.read, readCursor, `SELECT `+cursorColumns+` FROM event_cursor WHERE stream LIKE 'schedule/%'`)
	if err != nil {
		return nil, wrapErr("tick cursors", err)
	}
	return byStream(all), nil
}

// Cursors returns the cursors of the lines of the broker's streams, by line, and the one of events without a stream under the
// empty name.
func (s *CursorStore) Cursors(ctx context.Context) (map[string]futurejobs.Cursor, error) {
	all, err := query(ctx, s.read, readCursor, `SELECT `+cursorColumns+` FROM event_cursor WHERE `+isReceived)
	if err != nil {
		return nil, wrapErr("cursors", err)
	}
	return byStream(all), nil
}

func byStream(all []futurejobs.Cursor) map[string]futurejobs.Cursor {
	cursors := make(map[string]futurejobs.Cursor, len(all))
	for _, c := range all {
		cursors[c.Stream] = c
	}
	return cursors
}

// RecordGap implements futurejobs.EffectStore and futurejobs.GapStore. It never moves back, except from the future.
func (s *CursorStore) RecordGap(ctx context.Context, topic string, since time.Time) error {
	if _, err := exec(ctx, s.db, `
UPDATE event_cursor SET heard_since = CASE WHEN heard_since > $1 AND heard_since <= now() THEN heard_since ELSE $1 END WHERE stream = $2`, since, topic); err != nil {
		return wrapErr("hear", err)
	}
	return nil
}

// isReceived is the condition that a cursor is of received events: of a line of a stream of the broker, or of pings and
// manual jobs, with an empty name. The cursors of expected keys and ticks have a slash in their names and end otherwise
// than a tenants' line.
const isReceived = `(stream NOT LIKE '%/%' OR stream LIKE '%/tenants')`

// ReadThrough implements futurejobs.Queue.
func (s *CursorStore) ReadThrough(ctx context.Context) (map[string]futurejobs.StreamProgress, error) {
	cursors, err := s.Cursors(ctx)
	if err != nil {
		return nil, err
	}
	through := make(map[string]futurejobs.StreamProgress, len(cursors))
	for _, c := range cursors {
		through[c.Stream] = futurejobs.StreamProgress{Through: c.ReadThrough, ReceivingSince: c.ReceivingSince}
	}
	return through, nil
}
