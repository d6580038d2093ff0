package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	futurejobs "deadman/future_jobs"
)

const (
	// SessionIdle is the lifetime of an unused session.
	SessionIdle = 12 * time.Hour
	// SessionMost is the maximum lifetime of a token's session.
	SessionMost = 30 * 24 * time.Hour
	// PersonMost is the maximum lifetime of a person's session: the provider is queried only at login.
	PersonMost = 12 * time.Hour
	// sessionMark is the prefix of a session's secret.
	sessionMark = "ds_"
	// maxUserAgent is the maximum stored length of a user agent, in bytes.
	maxUserAgent = 200
)

// ErrNoSession means that the session does not exist. It wraps futurejobs.ErrNotFound.
var ErrNoSession = fmt.Errorf("session %w, or ended already; `deadman session list` shows all", futurejobs.ErrNotFound)

// Session is a browser login with a token or through a provider. A token's session has the token's permissions and
// ends no later; a person's session has the permissions of the person's groups. Only the browser knows the secret.
type Session struct {
	ID         string
	TokenID    string  // empty for a person
	TokenName  string  // set by Sessions and SessionByHash
	Person     *Person // nil for a token
	CreatedAt  time.Time
	LastUsedAt time.Time // to the minute
	ExpiresAt  time.Time // regardless of use
	Addr       string    // remote address of the login
	UserAgent  string    // shortened
	Hash       [32]byte  // SHA-256 of the secret
}

// Live reports whether the session is neither idle for too long nor expired.
func (s Session) Live(now time.Time) bool { return now.Before(s.EndsAt()) }

// EndsAt returns the time at which the session ends without further use.
func (s Session) EndsAt() time.Time {
	if idle := s.LastUsedAt.Add(SessionIdle); idle.Before(s.ExpiresAt) {
		return idle
	}
	return s.ExpiresAt
}

// Holder returns the name and id of the session's token or person, as an actor.
func (s Session) Holder() (name, id string) {
	if s.Person != nil {
		return s.Person.String(), s.Person.ID()
	}
	return s.TokenName, s.TokenID
}

// SessionStore stores sessions.
type SessionStore interface {
	// TokenByID returns the token with an id, live or not, or ErrNotFound.
	TokenByID(ctx context.Context, id string) (Token, error)
	// Sessions returns all sessions, newest first by id, including ended ones that are still stored. It omits those
	// of revoked tokens.
	Sessions(ctx context.Context) ([]Session, error)
	// SessionByHash returns the session by its secret's hash, live or not, or ErrNoSession.
	SessionByHash(ctx context.Context, hash [32]byte) (Session, error)
	// InsertSession stores a new session and audits session.create in the same transaction. It returns ErrNotFound if
	// the session's token does not exist or is revoked; a person's session has no token.
	InsertSession(ctx context.Context, s Session) error
	// EndSession deletes a session and audits session.revoke in the same transaction. It returns ErrNoSession if it
	// does not exist.
	EndSession(ctx context.Context, id string) error
	// TouchSession records a use of a session. The recorded time never decreases.
	TouchSession(ctx context.Context, id string, at time.Time) error
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
	s, sessionSecret, err = k.begin(ctx, s)
	if errors.Is(err, ErrNotFound) { // it was revoked meanwhile
		err = ErrDenied
	}
	return s, sessionSecret, err
}

// Admit creates a session for a person authenticated by a provider. It returns the session's secret, which can't be
// retrieved later.
func (k *Tokens) Admit(ctx context.Context, p Person, addr, userAgent string) (s Session, sessionSecret string, err error) {
	return k.begin(ctx, Session{Person: &p, ExpiresAt: k.now().Add(PersonMost), Addr: addr, UserAgent: userAgent})
}

// begin stores a new session.
func (k *Tokens) begin(ctx context.Context, s Session) (Session, string, error) {
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

// shortAgent returns a user agent for storage: printable and of bounded length.
func shortAgent(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if len(name) <= maxUserAgent {
		return name
	}
	end := maxUserAgent
	for !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + "…"
}
