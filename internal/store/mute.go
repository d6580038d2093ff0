package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

const (
	// muteEnd is the end of a mute. One that begins later has it in planned_end (decision 120).
	muteEnd     = `coalesce(planned_end, ends_at)`
	muteColumns = `id, matches, reason, created_at, created_by, starts_at, ` + muteEnd + `, coalesce(ended_by, '')`
	// notEnded accepts the mutes that have not ended: those in effect and those that begin later.
	notEnded = muteEnd + ` > $1`
)

func readMute(row scanner, m *alerts.Mute) error {
	var match string
	if err := row.Scan(&m.ID, &match, (*escapedText)(&m.Reason), at(&m.CreatedAt), (*escapedText)(&m.CreatedBy),
		at(&m.StartsAt), at(&m.EndsAt), (*escapedText)(&m.EndedBy)); err != nil {
		return err
	}
	return json.Unmarshal([]byte(match), &m.Match)
}

// mutesLock is the setting whose row locks the creation of mutes.
const mutesLock = "mutes_lock"

// MuteStore keeps mutes.
type MuteStore struct{ *database }

// Mutes returns all mutes that are kept, newest first.
func (s *MuteStore) Mutes(ctx context.Context) ([]alerts.Mute, error) {
	return s.mutes(ctx, ` ORDER BY id DESC`)
}

// LiveMutes returns the mutes that are in effect at now, oldest first.
func (s *MuteStore) LiveMutes(ctx context.Context, now time.Time) ([]alerts.Mute, error) {
	return s.mutes(ctx, ` WHERE `+notEnded+` AND (starts_at IS NULL OR starts_at <= $1) ORDER BY id`, now)
}

func (s *MuteStore) mutes(ctx context.Context, which string, args ...any) ([]alerts.Mute, error) {
	found, err := query(ctx, s.read, readMute, `SELECT `+muteColumns+` FROM mute`+which, args...)
	if err != nil {
		return nil, wrapErr("mutes", err)
	}
	return found, nil
}

// CreateMute stores a mute and audits mute.create in the same transaction. A start that is not in the future is its creation.
// It returns alerts.ErrTooManyMutes at the limit: a lock makes calls count one after the other. A request with an idempotency key
// is carried out once: its repetition returns the first mute.
func (s *MuteStore) CreateMute(ctx context.Context, m alerts.Mute) (alerts.Mute, error) {
	key := access.OnceOf(ctx)
	m, _, err := unlessRepeated(ctx, s.db, key, func() (alerts.Mute, error) { return s.insertMute(ctx, key, m) })
	if errors.Is(err, alerts.ErrTooManyMutes) {
		return m, err
	}
	if err != nil {
		return m, wrapErr("create mute", err)
	}
	return m, nil
}

// insertMute stores a mute, and the outcome of the request with the key.
func (s *MuteStore) insertMute(ctx context.Context, key string, m alerts.Mute) (alerts.Mute, error) {
	match, err := json.Marshal(m.Match)
	if err != nil {
		return m, err
	}
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		m.CreatedAt, m.CreatedBy = now, access.ActorOf(ctx).Name
		if _, err := exec(ctx, tx, putSetting, mutesLock, ""); err != nil {
			return err
		}
		var live int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM mute WHERE `+notEnded, now).Scan(&live); err != nil {
			return err
		}
		if live >= alerts.MaxLiveMutes {
			return alerts.ErrTooManyMutes
		}
		ends, planned := m.EndsAt, time.Time{}
		if m.StartsAt.After(now) {
			ends, planned = now, m.EndsAt
		} else {
			m.StartsAt = time.Time{}
		}
		if err := tx.QueryRowContext(ctx, `INSERT INTO mute (matches, reason, created_at, created_by, ends_at, starts_at, planned_end) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id`,
			document(match), escape(m.Reason), now, escape(m.CreatedBy), ends, when(m.StartsAt), when(planned)).Scan(&m.ID); err != nil {
			return err
		}
		if err := audit(ctx, tx, now, access.MuteCreate, fmt.Sprintf("mute/%d", m.ID),
			fmt.Sprintf("%s; %s; %s", m.Match, m.Span(), m.Reason)); err != nil {
			return err
		}
		return keepOutcomeIn(ctx, tx, key, m)
	})
	return m, err
}

// EndMute ends a mute early, or before its start, and audits mute.end in the same transaction. It returns
// futurejobs.ErrNotFound if the mute does not exist or has ended.
func (s *MuteStore) EndMute(ctx context.Context, id int64) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		n, err := exec(ctx, tx, `UPDATE mute SET ends_at = $1, planned_end = NULL, ended_by = $2 WHERE id = $3 AND `+notEnded,
			now, escape(access.ActorOf(ctx).Name), id)
		switch {
		case err != nil:
			return err
		case n == 0:
			return futurejobs.ErrNotFound
		}
		return audit(ctx, tx, now, access.MuteEnd, fmt.Sprintf("mute/%d", id), "")
	})
	if errors.Is(err, futurejobs.ErrNotFound) {
		return fmt.Errorf("mute %d: %w, or it has ended; `deadman mute list` shows all", id, err)
	}
	if err != nil {
		return wrapErr("end mute", err)
	}
	return nil
}
