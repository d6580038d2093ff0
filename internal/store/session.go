package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"deadman/internal/access"
)

func readSession(row scanner, s *access.Session) error {
	var hash []byte
	var person *string
	if err := row.Scan(&s.ID, &hash, &s.TokenID, &s.TokenName, at(&s.CreatedAt), at(&s.LastUsedAt), at(&s.ExpiresAt),
		(*escapedText)(&s.Addr), (*escapedText)(&s.UserAgent), &person); err != nil {
		return err
	}
	if person != nil {
		p := access.ReadPerson(*person)
		s.Person = &p
	}
	if len(hash) != len(s.Hash) {
		return fmt.Errorf("the hash of session %s has %d bytes", s.ID, len(hash))
	}
	s.Hash = [32]byte(hash)
	return nil
}

// selectSessions selects the sessions of persons, and those of tokens that are not revoked.
const selectSessions = `
SELECT s.id, s.hash, s.token_id, coalesce(t.name, ''), s.created_at, s.last_used_at, s.expires_at, s.addr, s.user_agent, s.person
FROM session s LEFT JOIN token t ON t.id = s.token_id AND t.revoked_at IS NULL
WHERE (t.id IS NOT NULL OR s.person IS NOT NULL)`

// SessionStore keeps the sessions of browsers.
type SessionStore struct{ *database }

// Sessions implements access.SessionStore. Ids begin with their time.
func (s *SessionStore) Sessions(ctx context.Context) ([]access.Session, error) {
	sessions, err := query(ctx, s.read, readSession, selectSessions+` ORDER BY s.id DESC`)
	if err != nil {
		return nil, wrapErr("sessions", err)
	}
	return sessions, nil
}

// SessionByHash implements access.SessionStore.
func (s *SessionStore) SessionByHash(ctx context.Context, hash [32]byte) (access.Session, error) {
	return first(ctx, s.read, readSession, access.ErrNoSession, "session", selectSessions+` AND s.hash = $1`, hash[:])
}

// InsertSession implements access.SessionStore. It locks the row of the token, so that a revocation precedes this
// session or deletes it.
func (s *SessionStore) InsertSession(ctx context.Context, one access.Session) error {
	person, detail, err := personColumn(one)
	if err != nil {
		return wrapErr("create session", err)
	}
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if one.Person == nil {
			n, err := exec(ctx, tx, `UPDATE token SET last_used_at = last_used_at WHERE id = $1 AND revoked_at IS NULL`, document([]byte(one.TokenID)))
			if err != nil {
				return err
			}
			if n == 0 {
				return access.ErrNotFound
			}
		}
		if _, err := exec(ctx, tx, `INSERT INTO session (id, hash, token_id, created_at, last_used_at, expires_at, addr, user_agent, person) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			one.ID, one.Hash[:], one.TokenID, one.CreatedAt, one.LastUsedAt, one.ExpiresAt, escape(one.Addr), escape(one.UserAgent), person); err != nil {
			return err
		}
		ended, err := endOldest(ctx, tx, one)
		if err != nil {
			return err
		}
		if ended > 0 {
			detail += fmt.Sprintf("; ended %d beyond the limit of %d sessions", ended, access.MaxSessions)
		}
		return audit(ctx, tx, now, access.SessionCreate, "session/"+one.ID, detail)
	})
	if err != nil {
		return wrapErr("create session", err)
	}
	return nil
}

// heldSession is a session with its holder.
type heldSession struct{ id, holder string }

func readHeldSession(row scanner, h *heldSession) error {
	var of access.Session
	var person *string
	err := row.Scan(&h.id, &of.TokenID, &person)
	if person != nil {
		p := access.ReadPerson(*person)
		of.Person = &p
	}
	_, h.holder = of.Holder()
	return err
}

// endOldest deletes the least recently used sessions of a new session's holder beyond access.MaxSessions, and returns
// their number. The sessions of all persons have the same, empty token id.
func endOldest(ctx context.Context, tx *sql.Tx, created access.Session) (ended int, err error) {
	held, err := query(ctx, tx, readHeldSession, `SELECT id, token_id, person FROM session WHERE token_id = $1 AND id <> $2 ORDER BY last_used_at DESC, id DESC`,
		created.TokenID, created.ID)
	if err != nil {
		return 0, err
	}
	_, holder := created.Holder()
	kept := 1
	for _, h := range held {
		if h.holder != holder {
			continue
		}
		if kept++; kept <= access.MaxSessions {
			continue
		}
		if _, err := exec(ctx, tx, `DELETE FROM session WHERE id = $1`, h.id); err != nil {
			return ended, err
		}
		ended++
	}
	return ended, nil
}

// personColumn returns the stored person of a session, NULL for nil, and the detail of the login for the audit log.
func personColumn(one access.Session) (column any, detail string, err error) {
	if one.Person == nil {
		return nil, "token " + one.TokenName, nil
	}
	column, err = access.WritePerson(*one.Person)
	detail = "id " + one.Person.ID() + "; groups " + strings.Join(one.Person.Groups, ", ")
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + "…"
	}
	return column, detail, err
}

// maxDetail bounds the description of a person in the audit log, in bytes.
const maxDetail = 2000

// EndSession implements access.SessionStore.
func (s *SessionStore) EndSession(ctx context.Context, id string) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		var token string
		var person *string
		err := tx.QueryRowContext(ctx, `DELETE FROM session WHERE id = $1 RETURNING token_id, person`, document([]byte(id))).Scan(&token, &person)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return access.ErrNoSession
		case err != nil:
			return err
		}
		detail := "token id " + token
		if person != nil {
			detail = access.ReadPerson(*person).String()
		}
		return audit(ctx, tx, now, access.SessionRevoke, "session/"+id, detail)
	})
	if err != nil {
		return wrapErr(fmt.Sprintf("end session %.70q", id), err)
	}
	return nil
}

// TouchSession implements access.SessionStore.
func (s *SessionStore) TouchSession(ctx context.Context, id string, at time.Time) error {
	if _, err := exec(ctx, s.db, `UPDATE session SET last_used_at = $1 WHERE id = $2 AND last_used_at < $1`, at, id); err != nil {
		return wrapErr("touch session", err)
	}
	return nil
}

// forgetSessions deletes expired and idle sessions.
func (s *SessionStore) forgetSessions(ctx context.Context, now time.Time) error {
	_, err := exec(ctx, s.db, `DELETE FROM session WHERE expires_at <= $1 OR last_used_at <= $2`, now, now.Add(-access.SessionIdle))
	return err
}
