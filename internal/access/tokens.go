package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
)

var (
	// ErrDenied means that a secret belongs to no live token.
	ErrDenied = errors.New("the token is unknown, expired or revoked; `deadman token create` makes one")
	// ErrNotFound means that the token does not exist. It wraps futurejobs.ErrNotFound.
	ErrNotFound = fmt.Errorf("token %w, or revoked already; `deadman token list` shows all", futurejobs.ErrNotFound)
	// ErrExists means that a live token has the name, or a confusable one.
	ErrExists = errors.New("a token of this name is in use; take another name, or revoke that one first")
)

// Store stores tokens, sessions and the audit log.
type Store interface {
	SessionStore
	TokenReader
	// InsertToken stores a new token and audits token.create in the same transaction. It returns ErrExists if a token
	// with the name is neither revoked nor expired at t.CreatedAt; an expired token loses its name.
	InsertToken(ctx context.Context, t Token) error
	// RevokeToken revokes the token with an id or name, deletes its sessions and audits token.revoke in the same
	// transaction. It returns ErrNotFound if the token does not exist or is revoked.
	RevokeToken(ctx context.Context, id string, at time.Time) error
	// TouchToken records a use of a token. The recorded time never decreases.
	TouchToken(ctx context.Context, id string, at time.Time) error
	// Note audits an action of the context's actor that changed nothing in the store, such as a check of a job or a
	// test of a channel. Changes are audited in their own transactions. An action that is not in Actions is an error.
	Note(ctx context.Context, action Action, object, detail string) error
	// Audit lists audit entries, newest first, and returns the cursor of the next page: empty at the end. It returns
	// futurejobs.ErrBadCursor for the cursor of another list.
	Audit(ctx context.Context, f AuditFilter) (entries []AuditEntry, next string, err error)
}

// TokenReader reads tokens.
type TokenReader interface {
	// Tokens returns all tokens, newest first by id. The newest token is never deleted.
	Tokens(ctx context.Context) ([]Token, error)
	// LiveTokenNames returns the names of the tokens that are live at now.
	LiveTokenNames(ctx context.Context, now time.Time) ([]string, error)
	// TokenByHash returns the token by its secret's hash, live or not, or ErrNotFound.
	TokenByHash(ctx context.Context, hash [32]byte) (Token, error)
}

// Tokens creates, authenticates and revokes tokens. It is safe for concurrent use.
type Tokens struct {
	store    Store
	now      func() time.Time
	recent   tokenCache // tokens
	sessions tokenCache
	names    nameForms
}

// NewTokens returns the tokens in s. now is the clock of their expiry.
func NewTokens(s Store, now func() time.Time) *Tokens {
	return &Tokens{store: s, now: now}
}

// Create creates a token. It returns the secret, which can't be retrieved later: only a hash is stored.
//
// It returns Problems for an invalid request, and ErrExists.
func (k *Tokens) Create(ctx context.Context, w TokenRequest) (t Token, secret string, err error) {
	if w, err = w.read(); err != nil {
		return Token{}, "", err
	}
	if err := k.checkLookAlikes(ctx, w.Name); err != nil {
		return Token{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Token{}, "", fmt.Errorf("token id: %w", err)
	}
	secret = newSecret(tokenPrefix)
	t = Token{
		ID: id.String(), Name: w.Name, Scopes: w.Scopes, Prefix: w.Prefix, Given: w.Bounds,
		CreatedAt: micro(k.now()), CreatedBy: ActorOf(ctx).Name, Hash: hashOf(secret),
	}
	if w.Expires != 0 {
		t.ExpiresAt = micro(t.CreatedAt.Add(w.Expires))
	}
	defer k.recent.forget() // even after an error, as the change may have been committed
	if err := k.store.InsertToken(ctx, t); err != nil {
		return Token{}, "", err
	}
	return t, secret, nil
}

// checkLookAlikes rejects a name that can be confused with that of another live token, for example in the audit log.
// Two such tokens created at the same moment both succeed, because the store compares exact names only. The error
// wraps ErrExists.
func (k *Tokens) checkLookAlikes(ctx context.Context, name string) error {
	names, err := k.store.LiveTokenNames(ctx, k.now())
	if err != nil {
		return err
	}
	if other := k.names.findSimilar(name, names); other != "" {
		return fmt.Errorf("%w: %q looks like %q", ErrExists, name, other)
	}
	return nil
}

// micro rounds a time to the store's precision.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Authenticate returns the live token with the secret, or ErrDenied.
func (k *Tokens) Authenticate(ctx context.Context, secret string) (Token, error) {
	p, err := k.find(ctx, &k.recent, hashOf(secret), k.tokenOf)
	return p.token, err
}

// tokenOf loads a token from the store.
func (k *Tokens) tokenOf(ctx context.Context, hash [32]byte) (pass, error) {
	t, err := k.store.TokenByHash(ctx, hash)
	return pass{token: t}, err
}

// find returns the object behind a secret, or ErrDenied.
//
//  1. The secret is already hashed, whatever its form.
//  2. The object is looked up by the hash, in the cache or the store. The duration depends on the hash, so it
//     reveals nothing about a secret.
//  3. The hashes are compared in constant time, even if nothing was found. Unknown, expired and revoked secrets
//     thus take the same path to a denial.
//  4. The use is recorded, at most once a minute.
func (k *Tokens) find(ctx context.Context, among *tokenCache, hash [32]byte, query func(context.Context, [32]byte) (pass, error)) (pass, error) {
	now := k.now()
	changes := among.changes()
	p, known := among.get(hash, now)
	if !known {
		var err error
		if p, err = query(ctx, hash); errors.Is(err, futurejobs.ErrNotFound) {
			p = pass{}
		} else if err != nil {
			return pass{}, err
		}
	}
	has := p.hash()
	same := subtle.ConstantTimeCompare(has[:], hash[:]) == 1
	if !same || !p.live(now) {
		among.drop(hash)
		return pass{}, ErrDenied
	}
	if !known {
		among.keep(p, now, changes)
	}
	if among.used(p, now) {
		k.touch(ctx, p, micro(now))
	}
	return p, nil
}

// touch records a use. A failure does not deny the use; a later use is recorded instead.
func (k *Tokens) touch(ctx context.Context, p pass, at time.Time) {
	if p.token.ID != "" {
		_ = k.store.TouchToken(ctx, p.token.ID, at)
	}
	if p.session.ID != "" {
		_ = k.store.TouchSession(ctx, p.session.ID, at)
	}
}

// IsKnown reports, without a store query, whether a secret was recently valid for a token or a session.
func (k *Tokens) IsKnown(secret string) bool {
	hash := hashOf(secret)
	return k.recent.has(hash) || k.sessions.has(hash)
}

// Revoke revokes the token with an id or name, at once on this node and within seconds on others. It returns
// ErrNotFound if the token does not exist or is revoked already.
func (k *Tokens) Revoke(ctx context.Context, id string) error {
	defer k.sessions.forget()
	defer k.recent.forget() // even after an error, as the change may have been committed
	return k.store.RevokeToken(ctx, id, micro(k.now()))
}

// List returns all tokens, newest first, including ended ones for the retention of the audit log, and the newest one
// always.
func (k *Tokens) List(ctx context.Context) ([]Token, error) { return k.store.Tokens(ctx) }

// HasTokens reports whether a live token with full access exists. Without one, tokens could not be created if every
// request needed one.
func (k *Tokens) HasTokens(ctx context.Context) (bool, error) {
	tokens, err := k.List(ctx)
	if err != nil {
		return false, err
	}
	now := k.now()
	return slices.ContainsFunc(tokens, func(t Token) bool { return t.Live(now) && t.May(Admin, "") }), nil
}

// EverIssued reports whether this database ever had a token, even a revoked or expired one. The store never deletes
// the newest token, so a positive answer stays true. A negative answer is cached for seconds, unless this node
// creates a token, because an open node calls it for each request.
func (k *Tokens) EverIssued(ctx context.Context) (bool, error) {
	now, changes := k.now(), k.recent.changes()
	if k.recent.free(now) {
		return false, nil
	}
	tokens, err := k.List(ctx)
	if err != nil || len(tokens) > 0 {
		return len(tokens) > 0, err
	}
	k.recent.keepFree(now, changes)
	return false, nil
}

// Note audits an action of the context's actor that changed nothing in the store. It does so even if the request was
// cancelled.
func (k *Tokens) Note(ctx context.Context, action Action, object, detail string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	return k.store.Note(ctx, action, object, detail)
}

// noteTimeout bounds the time to store an audit entry.
const noteTimeout = 10 * time.Second

// Audit lists audit entries, newest first, and returns the cursor of the next page: empty at the end. It returns
// futurejobs.ErrBadCursor for the cursor of another list.
func (k *Tokens) Audit(ctx context.Context, f AuditFilter) (entries []AuditEntry, next string, err error) {
	return k.store.Audit(ctx, f)
}

// Login creates a session for a token's secret. It returns the session's own secret, which can't be retrieved later.
//
// It returns ErrDenied if the secret belongs to no live token.
func (k *Tokens) Login(ctx context.Context, secret, addr, userAgent string) (s Session, sessionSecret string, err error) {
	t, err := k.Authenticate(ctx, secret)
	if err != nil {
		return Session{}, "", err
	}
	s = Session{TokenID: t.ID, TokenName: t.Name, ExpiresAt: k.now().Add(SessionMost), Addr: addr, UserAgent: userAgent}
	if !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(s.ExpiresAt) {
		s.ExpiresAt = t.ExpiresAt
	}
	s, sessionSecret, err = k.createSession(ctx, s)
	if errors.Is(err, ErrNotFound) { // it was revoked meanwhile
		err = ErrDenied
	}
	return s, sessionSecret, err
}

// Admit creates a session for a person authenticated by a provider. It returns the session's secret, which can't be
// retrieved later.
func (k *Tokens) Admit(ctx context.Context, p Person, addr, userAgent string) (s Session, sessionSecret string, err error) {
	return k.createSession(ctx, Session{Person: &p, ExpiresAt: k.now().Add(PersonMost), Addr: addr, UserAgent: userAgent})
}

// createSession stores a new session.
func (k *Tokens) createSession(ctx context.Context, s Session) (Session, string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Session{}, "", fmt.Errorf("session id: %w", err)
	}
	secret := newSecret(sessionMark)
	now := micro(k.now())
	s.ID, s.CreatedAt, s.LastUsedAt, s.ExpiresAt = id.String(), now, now, micro(s.ExpiresAt)
	s.UserAgent, s.Hash = shortAgent(s.UserAgent), hashOf(secret)
	name, holder := s.Holder()
	if err := k.store.InsertSession(As(ctx, Actor{Name: name, TokenID: holder, Addr: s.Addr}), s); err != nil {
		return Session{}, "", err
	}
	return s, secret, nil
}

// Resume returns the live session with the secret, and its token, or ErrDenied. A person's session has no token; the
// caller must look up the person's permissions.
func (k *Tokens) Resume(ctx context.Context, secret string) (Session, Token, error) {
	p, err := k.find(ctx, &k.sessions, hashOf(secret), k.sessionOf)
	return p.session, p.token, err
}

// sessionOf loads a session and its token from the store.
func (k *Tokens) sessionOf(ctx context.Context, hash [32]byte) (pass, error) {
	s, err := k.store.SessionByHash(ctx, hash)
	if err != nil || s.Person != nil {
		return pass{session: s}, err
	}
	t, err := k.store.TokenByID(ctx, s.TokenID)
	return pass{token: t, session: s}, err
}

// Sessions returns the live sessions, newest first.
func (k *Tokens) Sessions(ctx context.Context) ([]Session, error) {
	all, err := k.store.Sessions(ctx)
	now := k.now()
	return slices.DeleteFunc(all, func(s Session) bool { return !s.Live(now) }), err
}

// EndSession ends a session, at once on this node and within seconds on others. It returns ErrNoSession if it does
// not exist.
func (k *Tokens) EndSession(ctx context.Context, id string) error {
	defer k.sessions.forget() // even after an error, as the change may have been committed
	return k.store.EndSession(ctx, id)
}
