package web

import (
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"deadman/access"
)

// loginFor is how long a browser keeps a token that never expires.
const loginFor = 30 * 24 * time.Hour

// maxForm is the most that the form of the login page sends, in bytes.
const maxForm = 4 << 10

//go:embed login.html
var loginHTML string

var loginTemplate = template.Must(template.New("login").Parse(loginHTML))

// loginPath is the way in.
const loginPath = "/login"

// login takes a token from the page's form, or from the address that the node prints when it
// makes its first one, and keeps it in the browser's cookie. From there one goes where one wanted to.
func (a *api) login(w http.ResponseWriter, r *http.Request) {
	next := nextOf(r.URL.Query())
	if a.Open(r.Context()) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	secret := r.URL.Query().Get("token")
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		secret = r.PostFormValue("token")
		next = nextOf(r.PostForm)
	}
	if secret == "" {
		a.loginPage(w, r, http.StatusOK, wayIn{Next: next})
		return
	}
	v, err := a.known(r.Context(), secret)
	switch {
	case errors.Is(err, access.ErrDenied):
		a.loginPage(w, r, http.StatusUnauthorized, wayIn{Next: next, Wrong: "This token is unknown, expired or revoked."})
	case err != nil:
		a.fail(w, r, err)
	default:
		http.SetCookie(w, a.cookie(r, secret, v.token.ExpiresAt))
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// logout takes the token out of the browser. The token itself lives on: whoever has it can log in again.
func (a *api) logout(w http.ResponseWriter, r *http.Request) {
	gone := a.cookie(r, "", time.Time{})
	gone.Expires, gone.MaxAge = time.Time{}, -1
	http.SetCookie(w, gone)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// loginFrom is the way in that leads to the page that was asked for.
func loginFrom(asked *url.URL) string {
	next := asked.RequestURI()
	if next == "/" || len(next) > maxNext {
		return loginPath
	}
	return loginPath + "?" + url.Values{nextParameter: {next}}.Encode()
}

// nextParameter is where one goes from the way in; maxNext bounds it, in bytes.
const (
	nextParameter = "next"
	maxNext       = 2 << 10
)

// nextOf is the page of this node that one goes to from the way in: the front page, where none or
// something else is asked for. An address that a browser might take for one of another host, and so
// all with what browsers bend or leave out, is something else.
func nextOf(asked url.Values) string {
	next := asked.Get(nextParameter)
	strange := func(c rune) bool { return c <= ' ' || c == '\\' || c >= 0x7f }
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsFunc(next, strange) || len(next) > maxNext {
		return "/"
	}
	at, err := url.Parse(next)
	if err != nil || at.Scheme != "" || at.Host != "" || strings.HasPrefix(at.Path, "//") || at.Path == loginPath {
		return "/"
	}
	return next
}

// cookie is what the browser keeps. No script reads it. Pages of other sites send it where somebody
// follows a link of theirs (Lax), and so an alert can be opened from a chat; nothing is changed by
// that, for what changes something is a POST, which sameSite refuses from elsewhere.
func (a *api) cookie(r *http.Request, secret string, expires time.Time) *http.Cookie {
	if until := a.Now().Add(loginFor); expires.IsZero() || until.Before(expires) {
		expires = until
	}
	at, err := url.Parse(a.PublicURL)
	return &http.Cookie{
		Name: cookieName, Value: secret, Path: "/", Expires: expires, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || err == nil && at.Scheme == "https",
	}
}

// wayIn is what the page of the way in shows.
type wayIn struct {
	Next  string // where one goes from it
	Wrong string // why the token that was given is none; empty: nobody tried yet
}

// loginPage shows the way in.
func (a *api) loginPage(w http.ResponseWriter, r *http.Request, status int, in wayIn) {
	a.frame(w, r, Framed{Name: "login", Title: "Log in", Status: status, Alone: true}, loginTemplate, in)
}
