package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// TokenStore keeps tokens.
type TokenStore struct{ *database }

// TokenByID implements access.SessionStore.
func (s *TokenStore) TokenByID(ctx context.Context, id string) (access.Token, error) {
	return first(ctx, s.read, readToken, access.ErrNotFound, "token", `SELECT `+tokenColumns+` FROM token WHERE id = $1`, document([]byte(id)))
}

var _ access.Store = (*Store)(nil)

const tokenColumns = `id, hash, name, scopes, prefix, created_at, created_by, expires_at, revoked_at, last_used_at, bounds`

func readToken(row scanner, t *access.Token) error {
	var hash []byte
	var scopes string
	var given *access.Bounds
	if err := row.Scan(&t.ID, &hash, &t.Name, &scopes, &t.Prefix, at(&t.CreatedAt), (*escapedText)(&t.CreatedBy),
		at(&t.ExpiresAt), at(&t.RevokedAt), at(&t.LastUsedAt), &boundsInto{&given}); err != nil {
		return err
	}
	if len(hash) != len(t.Hash) {
		return fmt.Errorf("the hash of token %s has %d bytes", t.ID, len(hash))
	}
	t.Hash = [32]byte(hash)
	if given != nil {
		t.Given = *given
	}
	for s := range strings.SplitSeq(scopes, ",") {
		t.Scopes = append(t.Scopes, access.Scope(s))
	}
	return nil
}

// Tokens implements access.TokenReader. Ids begin with their time.
func (s *TokenStore) Tokens(ctx context.Context) ([]access.Token, error) {
	tokens, err := query(ctx, s.read, readToken, `SELECT `+tokenColumns+` FROM token ORDER BY id DESC`)
	if err != nil {
		return nil, wrapErr("tokens", err)
	}
	return tokens, nil
}

// TokensWithin returns the tokens with a prefix that begins with a text, newest first by id.
func (s *TokenStore) TokensWithin(ctx context.Context, prefix string) ([]access.Token, error) {
	tokens, err := query(ctx, s.read, readToken, `SELECT `+tokenColumns+` FROM token WHERE substr(prefix, 1, $1) = $2 ORDER BY id DESC`, len(prefix), prefix)
	if err != nil {
		return nil, wrapErr("tokens of a prefix", err)
	}
	return tokens, nil
}

// LiveTokenNames implements access.TokenReader.
func (s *TokenStore) LiveTokenNames(ctx context.Context, now time.Time) ([]string, error) {
	names, err := query(ctx, s.read, func(row scanner, name *string) error { return row.Scan(name) },
		`SELECT name FROM token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1)`, now)
	if err != nil {
		return nil, wrapErr("names of tokens", err)
	}
	return names, nil
}

// TokenByHash implements access.TokenReader.
func (s *TokenStore) TokenByHash(ctx context.Context, hash [32]byte) (access.Token, error) {
	return first(ctx, s.read, readToken, access.ErrNotFound, "token", `SELECT `+tokenColumns+` FROM token WHERE hash = $1`, hash[:])
}

// InsertToken implements access.Store. An expired token of the same name is revoked as of its expiry, and this frees the
// name.
func (s *TokenStore) InsertToken(ctx context.Context, t access.Token) error {
	bounds, err := boundsColumn(t.Given.OrNil())
	if err != nil {
		return wrapErr("create token "+t.Name, err)
	}
	err = s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		if _, err := exec(ctx, tx, `UPDATE token SET revoked_at = expires_at WHERE name = $1 AND revoked_at IS NULL AND expires_at <= $2`,
			t.Name, t.CreatedAt); err != nil {
			return err
		}
		n, err := exec(ctx, tx, `INSERT INTO token (`+tokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
			t.ID, t.Hash[:], t.Name, scopeList(t.Scopes, ","), t.Prefix, t.CreatedAt, escape(t.CreatedBy),
			when(t.ExpiresAt), when(t.RevokedAt), when(t.LastUsedAt), bounds)
		if err != nil {
			return err
		}
		if n == 0 {
			return access.ErrExists
		}
		if err := quotaOf(ctx, tx, t.Prefix); err != nil {
			return err
		}
		return audit(ctx, tx, now, access.TokenCreate, "token/"+t.Name, described(t))
	})
	if err != nil {
		return wrapErr("create token "+t.Name, err)
	}
	return nil
}

// boundsColumn returns bounds as they are stored: NULL for nil.
func boundsColumn(b *access.Bounds) (any, error) {
	if b == nil {
		return nil, nil
	}
	return access.WriteBounds(b)
}

// boundsInto reads such a column.
type boundsInto struct{ to **access.Bounds }

// Scan implements sql.Scanner.
func (b *boundsInto) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*b.to = nil
	case string:
		*b.to = access.ReadBounds(v)
	case []byte:
		*b.to = access.ReadBounds(string(v))
	default:
		return fmt.Errorf("%T is not bounds", src)
	}
	return nil
}

func scopeList(scopes []access.Scope, between string) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, between)
}

// described returns the detail of a new token in the audit log.
func described(t access.Token) string {
	text := "id " + t.ID + "; scopes " + scopeList(t.Scopes, ", ")
	if t.Prefix != "" {
		text += "; rules " + t.Prefix + "*"
	}
	if b := t.Bounds(); b != nil {
		text += "; " + b.String()
	}
	if t.ExpiresAt.IsZero() {
		return text + "; never expires"
	}
	return text + "; expires " + t.ExpiresAt.Format(time.RFC3339)
}

// RevokeToken implements access.Store.
func (s *TokenStore) RevokeToken(ctx context.Context, id string, at time.Time) error {
	err := s.tx(ctx, func(tx *sql.Tx, now time.Time) error {
		var t access.Token
		err := tx.QueryRowContext(ctx, `UPDATE token SET revoked_at = $1 WHERE (id = $2 OR name = $2) AND revoked_at IS NULL RETURNING id, name`,
			at, document([]byte(id))).Scan(&t.ID, &t.Name)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return access.ErrNotFound
		case err != nil:
			return err
		}
		if _, err := exec(ctx, tx, `DELETE FROM session WHERE token_id = $1`, t.ID); err != nil {
			return err
		}
		return audit(ctx, tx, now, access.TokenRevoke, "token/"+t.Name, "id "+t.ID)
	})
	if err != nil {
		return wrapErr(fmt.Sprintf("revoke %.70q", id), err)
	}
	return nil
}

// TouchToken implements access.Store.
func (s *TokenStore) TouchToken(ctx context.Context, id string, at time.Time) error {
	if _, err := exec(ctx, s.db, `UPDATE token SET last_used_at = $1 WHERE id = $2 AND (last_used_at IS NULL OR last_used_at < $1)`,
		at, id); err != nil {
		return wrapErr("touch token", err)
	}
	return nil
}

// insertAudit writes a line of the audit log. Its parameters are auditArgs.
const insertAudit = `
INSERT INTO audit (at, actor, token_id, addr, action, object, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)`

// auditArgs returns the parameters of insertAudit: the context's actor did action to object. An action outside
// access.Actions is an error.
func auditArgs(ctx context.Context, now time.Time, action access.Action, object, detail string) ([]any, error) {
	if err := action.Check(); err != nil {
		return nil, err
	}
	a := access.ActorOf(ctx)
	return []any{now, escape(a.Name), escape(a.TokenID), escape(a.Addr), string(action), escape(object), escape(detail)}, nil
}

// audit records an action in the transaction that performs it, so each action has its line.
func audit(ctx context.Context, tx execer, now time.Time, action access.Action, object, detail string) error {
	args, err := auditArgs(ctx, now, action, object, detail)
	if err != nil {
		return err
	}
	_, err = exec(ctx, tx, insertAudit, args...)
	return err
}

func readEntry(row scanner, e *access.AuditEntry) error {
	a := &e.Actor
	return row.Scan(&e.ID, at(&e.At), (*escapedText)(&a.Name), (*escapedText)(&a.TokenID), (*escapedText)(&a.Addr),
		(*escapedText)(&e.Action), (*escapedText)(&e.Object), (*escapedText)(&e.Detail))
}

const auditEntries = `SELECT id, at, actor, token_id, addr, action, object, detail FROM audit`

// auditText conditions only the columns that a filter sets: the index on the object serves only a statement with a
// condition on it.
func auditText(f access.AuditFilter, before int64, limit int) (text string, args []any) {
	w := filter{auditEntries + ` WHERE id < ?`, []any{before}}
	w.like(`actor`, f.Actor)
	w.like(`action`, f.Action)
	w.like(`object`, f.Object)
	w.timeRange(`at`, futurejobs.Filter{After: f.After, Before: f.Before})
	return rebindPlaceholders(w.text + ` ORDER BY id DESC LIMIT ?`), append(w.args, limit)
}

// lastRune sorts after any continuation of a text. It is not a character, so no text has it.
const lastRune = '\U0010FFFF'
