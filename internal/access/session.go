package access

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	futurejobs "deadman/future_jobs"
)

const (
	// SessionIdle is the lifetime of an unused session.
	SessionIdle = 12 * time.Hour
	// SessionMost is the maximum lifetime of a token's session.
	SessionMost = 30 * 24 * time.Hour
	// PersonMost is the maximum lifetime of a person's session: the provider is queried only at login.
	PersonMost = 12 * time.Hour
	// MaxSessions is the maximum number of sessions of one token or person. A login beyond it ends the session that was
	// not used for the longest time.
	MaxSessions = 100
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
	// InsertSession stores a new session, ends the least recently used ones of its token or person beyond MaxSessions,
	// and audits session.create in the same transaction. It returns ErrNotFound if the session's token does not exist
	// or is revoked; a person's session has no token.
	InsertSession(ctx context.Context, s Session) error
	// EndSession deletes a session and audits session.revoke in the same transaction. It returns ErrNoSession if it
	// does not exist.
	EndSession(ctx context.Context, id string) error
	// TouchSession records a use of a session. The recorded time never decreases.
	TouchSession(ctx context.Context, id string, at time.Time) error
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
