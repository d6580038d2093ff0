package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"deadman/internal/access"
)

// The kinds of refused credentials, as labels of the metric and the log.
const (
	byToken   = "token"
	bySession = "session"
	byLogin   = "login"
	// Persons, named by a proxy's headers or a provider.
	byProxy    = access.ByProxy
	byProvider = access.ByOIDC
	// refusedUnseen is a secret that was refused unchecked.
	refusedUnseen = "limit"
)

// credential is the secret of a request.
type credential struct {
	secret string
	kind   string // byToken, bySession, byLogin or byProvider
}

// denial returns the error for an invalid secret.
func (c credential) denial() error {
	if c.kind == bySession {
		return sessionOver{}
	}
	return access.ErrDenied
}

// sessionCookie returns the name of the cookie that stores a browser's session. If the node is served by https, the name
// keeps other hosts and plain http from setting the cookie.
func (a *api) sessionCookie(r *http.Request) string {
	if a.isSecure(r) {
		return "__Host-deadman_session"
	}
	return "deadman_session"
}

// isSecure reports whether users reach the node by https.
func (a *api) isSecure(r *http.Request) bool {
	return r.TLS != nil || IsHTTPS(a.PublicURL)
}

// credentialOf returns the secret of a request: a program's token in a header, or a browser's session in its cookie.
func (a *api) credentialOf(r *http.Request) (credential, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		if cookie, err := r.Cookie(a.sessionCookie(r)); err == nil {
			return credential{cookie.Value, bySession}, nil
		}
		return credential{}, problem(http.StatusUnauthorized, "this takes a token; send Authorization: Bearer and the token, or open /login in a browser")
	}
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return credential{}, problem(http.StatusUnauthorized, "the Authorization header is not a Bearer token; write: Authorization: Bearer dm_…")
	}
	return credential{strings.TrimSpace(secret), byToken}, nil
}

// sessionOver is the error of an invalid session. It is also access.ErrDenied.
type sessionOver struct{}

// Error implements error.
func (sessionOver) Error() string {
	return "the session is over, or its token was revoked; log in again at /login"
}

// Is implements the interface of errors.Is.
func (sessionOver) Is(target error) bool { return target == access.ErrDenied }

// known authenticates a secret, or returns access.ErrDenied.
func (a *api) known(ctx context.Context, shown credential) (principal, error) {
	switch {
	case a.Keeper == nil:
		return principal{}, access.ErrDenied
	case shown.kind == bySession:
		session, token, err := a.Keeper.Resume(ctx, shown.secret)
		if errors.Is(err, access.ErrDenied) {
			err = shown.denial()
		}
		if err != nil || session.Person == nil {
			return principal{token: token, session: session}, err
		}
		v, err := a.admitted(*session.Person)
		v.session = session
		return v, err
	}
	token, err := a.Keeper.Authenticate(ctx, shown.secret)
	return principal{token: token}, err
}
