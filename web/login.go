package web

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
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

// loginPolicy lets the page's own style in, and its form out to the node.
var loginPolicy = policy(plainCSS, "form-action 'self'")

// loginView is what the login page shows.
type loginView struct {
	CSS   template.CSS
	Wrong string // empty: nobody tried yet
}

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

func (a *api) loginPage(w http.ResponseWriter, r *http.Request, status int, wrong string) {
	var out bytes.Buffer
	if err := loginTemplate.Execute(&out, loginView{CSS: plainStyle, Wrong: wrong}); err != nil {
		a.fail(w, r, fmt.Errorf("login page: %w", err))
		return
	}
	w.Header().Set("Content-Security-Policy", loginPolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	a.send(w, r, "text/html; charset=utf-8", status, out.Bytes())
}
