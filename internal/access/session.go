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
	// SessionIdle is how long a session lives without use.
	SessionIdle = 12 * time.Hour
	// SessionMost is how long a session lives, however it is used.
	SessionMost = 30 * 24 * time.Hour
	// PersonMost is how long a session of a person lives, however it is used: who vouches for the person is asked at
	// the login alone.
	PersonMost = 12 * time.Hour
	// sessionMark is how the secret of a session begins.
	sessionMark = "ds_"
	// maxUserAgent is how much of a browser's name is kept, in bytes.
	maxUserAgent = 200
)

// ErrNoSession means that there is no such session. It is futurejobs.ErrNotFound, too.
var ErrNoSession = fmt.Errorf("session %w, or ended already; `deadman session list` shows all", futurejobs.ErrNotFound)

// Session is a browser in which a person logged in: with a token, or by a provider. The first may what
// the token may, and ends no later; of the second, the person's groups decide. Its secret is known to the browser alone.
type Session struct {
	ID         string
	TokenID    string  // empty: of a person
	TokenName  string  // of Sessions and SessionByHash
	Person     *Person // nil: of a token
	CreatedAt  time.Time
	LastUsedAt time.Time // to the minute
	ExpiresAt  time.Time // however it is used
	Addr       string    // where the login came from
	UserAgent  string    // what the browser calls itself, shortened
	Hash       [32]byte  // SHA-256 of the secret
}

// Live reports whether the session is neither idle for too long nor expired.
func (s Session) Live(now time.Time) bool { return now.Before(s.EndsAt()) }

// EndsAt is when the session ends if it is not used until then.
func (s Session) EndsAt() time.Time {
	if idle := s.LastUsedAt.Add(SessionIdle); idle.Before(s.ExpiresAt) {
		return idle
	}
	return s.ExpiresAt
}

// Holder is who has the session, as an actor: the name and the id of the token, or of the person.
func (s Session) Holder() (name, id string) {
	if s.Person != nil {
		return s.Person.String(), s.Person.ID()
	}
	return s.TokenName, s.TokenID
}

// SessionStore keeps sessions.
type SessionStore interface {
	// TokenByID returns the token of an id, dead or alive, or ErrNotFound.
	TokenByID(ctx context.Context, id string) (Token, error)
	// Sessions returns all sessions, newest first, which is by their ids, also those that are over and not
	// forgotten yet. Those of revoked tokens are left out.
	Sessions(ctx context.Context) ([]Session, error)
	// SessionByHash returns the session of a secret's hash, dead or alive, or ErrNoSession.
	SessionByHash(ctx context.Context, hash [32]byte) (Session, error)
	// InsertSession keeps a new session and audits session.create in the same transaction. It returns
	// ErrNotFound where its token is gone or revoked; that of a person has none.
	InsertSession(ctx context.Context, s Session) error
	// EndSession forgets a session and audits session.revoke in the same transaction. It returns
	// ErrNoSession where there is none.
	EndSession(ctx context.Context, id string) error
	// TouchSession notes that a session was used. It never goes back.
	TouchSession(ctx context.Context, id string, at time.Time) error
}

// Login makes a session for the holder of a token's secret. The session's own secret is returned here
// and never again.
//
// It returns ErrDenied for a secret that is not a live token's.
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

// Admit makes a session for a person for whom a provider vouches. The session's secret is returned here and
// never again.
func (k *Tokens) Admit(ctx context.Context, p Person, addr, userAgent string) (s Session, sessionSecret string, err error) {
	return k.begin(ctx, Session{Person: &p, ExpiresAt: k.now().Add(PersonMost), Addr: addr, UserAgent: userAgent})
}

// begin keeps a new session of a holder, from now until it expires.
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

// Resume returns the live session that has the secret and its token, or ErrDenied. A person's session has no token: what
// the person may is the caller's to find.
func (k *Tokens) Resume(ctx context.Context, secret string) (Session, Token, error) {
	p, err := k.find(ctx, &k.sessions, hashOf(secret), k.sessionOf)
	return p.session, p.token, err
}

// sessionOf asks the store for a session and its token.
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

// EndSession ends the session of an id, on this node at once and on others within seconds. It returns
// ErrNoSession where there is none.
func (k *Tokens) EndSession(ctx context.Context, id string) error {
	defer k.sessions.forget() // also after an error: it may have been done nevertheless
	return k.store.EndSession(ctx, id)
}

// shortAgent is what a browser calls itself, as it is kept: text that can be shown, of a bounded length.
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
