package web

import (
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
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

// login takes a token from the page's form, or from the address that the node prints when it
// makes its first one, and keeps it in the browser's cookie.
func (a *api) login(w http.ResponseWriter, r *http.Request) {
	if a.Open(r.Context()) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	secret := r.URL.Query().Get("token")
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		secret = r.PostFormValue("token")
	}
	if secret == "" {
		a.loginPage(w, r, http.StatusOK, "")
		return
	}
	v, err := a.known(r.Context(), secret)
	switch {
	case errors.Is(err, access.ErrDenied):
		a.loginPage(w, r, http.StatusUnauthorized, "This token is unknown, expired or revoked.")
	case err != nil:
		a.fail(w, r, err)
	default:
		http.SetCookie(w, a.cookie(r, secret, v.token.ExpiresAt))
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

// logout takes the token out of the browser. The token itself lives on: whoever has it can log in again.
func (a *api) logout(w http.ResponseWriter, r *http.Request) {
	gone := a.cookie(r, "", time.Time{})
	gone.Expires, gone.MaxAge = time.Time{}, -1
	http.SetCookie(w, gone)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// cookie is what the browser keeps. No script reads it, and no page of another site sends it.
func (a *api) cookie(r *http.Request, secret string, expires time.Time) *http.Cookie {
	if until := a.Now().Add(loginFor); expires.IsZero() || until.Before(expires) {
		expires = until
	}
	at, err := url.Parse(a.PublicURL)
	return &http.Cookie{
		Name: cookieName, Value: secret, Path: "/", Expires: expires, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || err == nil && at.Scheme == "https",
	}
}

// loginPage shows the way in; wrong is why the token that was given is none, and empty where nobody
// tried yet.
func (a *api) loginPage(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	a.frame(w, r, Framed{Name: "login", Title: "Log in", Status: status, Alone: true}, loginTemplate, wrong)
}
