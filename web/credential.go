package web

import (
	"net/http"
	"time"

	"deadman/internal/access"
	"deadman/internal/acklinks"
	"deadman/internal/badges"
)

// The kinds of refused credentials, as labels of the metric and the log.
const (
	byToken   = "token"
	bySession = "session"
	byLogin   = "login"
	byLink    = "link" // acknowledges alerts
	byBadge   = "badge"
	// Persons, named by a proxy's headers or a provider.
	byProxy    = access.ByProxy
	byProvider = access.ByOIDC
	// refusedUnseen is a secret that was refused unchecked.
	refusedUnseen = "limit"
)

// credential is the secret of a request.
type credential struct {
	secret string
	kind   string // byToken, bySession, byLogin, byLink, byBadge or byProvider
}

// denial returns the error for an invalid secret.
func (c credential) denial() error {
	switch c.kind {
	case bySession:
		return sessionOver{}
	case byLink:
		return acklinks.ErrInvalid
	case byBadge:
		return badges.ErrInvalid
	}
	return access.ErrDenied
}

// cookies makes the cookies of the login.
type cookies struct {
	publicURL string
}

// sessionCookie returns the name of the cookie that stores a browser's session. If the node is served by https, the name
// keeps other hosts and plain http from setting the cookie.
func (a *cookies) sessionCookie(r *http.Request) string {
	if a.isSecure(r) {
		return "__Host-deadman_session"
	}
	return "deadman_session"
}

// isSecure reports whether users reach the node by https.
func (a *cookies) isSecure(r *http.Request) bool {
	return r.TLS != nil || IsHTTPS(a.publicURL)
}

// sessionOver is the error of an invalid session. It is also access.ErrDenied.
type sessionOver struct{}

// Error implements error.
func (sessionOver) Error() string {
	return "the session is over, or its token was revoked; log in again at /login"
}

// Is implements the interface of errors.Is.
func (sessionOver) Is(target error) bool { return target == access.ErrDenied }

// session returns the session cookie. Scripts cannot read it. Browsers send it when a user follows a link of another site
// (Lax), so that an alert can be opened from a chat. Such requests change nothing: changes are POSTs, and sameSite
// refuses those of other sites.
func (a *cookies) session(r *http.Request, secret string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: a.sessionCookie(r), Value: secret, Path: "/", Expires: expires, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: a.isSecure(r),
	}
}

// attempt returns the cookie of a login in progress. It is Lax, since the provider redirects from another site.
func (a *cookies) attempt(r *http.Request, value string, seconds int) *http.Cookie {
	c := &http.Cookie{Name: "deadman_login", Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: a.isSecure(r)}
	if c.Secure {
		c.Name = "__Host-" + c.Name
	}
	return c
}
