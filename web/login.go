package web

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"deadman/internal/access"
)

// maxForm is the largest size of the login form, in bytes.
const maxForm = 4 << 10

//go:embed login.html
var loginHTML string

var loginTemplate = template.Must(template.New("login").Parse(loginHTML))

// loginPath is the path of the login page.
const loginPath = "/login"

// maxLogins is the maximum number of logins per second with one token; twice as many at once. Each has a session and an
// entry of the audit log.
const maxLogins = 20

// loginPages logs browsers in and out with tokens.
type loginPages struct {
	*responder
	auth   *authenticator
	logins spending
	now    func() time.Time
}

// form serves the login page. It fills in a token from the URL, as in the link that the node prints with its first
// token; the user still has to press the button. If a page of another site links here, the token is left out: it may be
// that site's.
func (a *loginPages) form(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	next := nextOf(query)
	if a.isOpen(w, r, next) {
		return
	}
	in := loginView{Next: next, Token: query.Get("token")}
	if site := r.Header.Get("Sec-Fetch-Site"); in.Token != "" && site != "" && site != "none" && site != "same-origin" {
		in.Token, in.Foreign = "", true
	}
	if a.isNamed(w, r, next) {
		return
	}
	if v, err := a.auth.visitor(r); err == nil {
		in.Name = v.token.Name
	}
	a.loginPage(w, r, http.StatusOK, in)
}

// isOpen answers a request to a node that needs no login: with the requested page. If the node cannot find out whether it
// needs one, it answers with the reason.
func (a *loginPages) isOpen(w http.ResponseWriter, r *http.Request, next string) bool {
	open, err := a.auth.open(r.Context())
	if err != nil {
		a.fail(w, r, err)
	} else if open {
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
	return open || err != nil
}

// isNamed answers a request with a person named by a proxy, since that person cannot log in: with the requested page, or
// the reason for a refusal.
func (a *loginPages) isNamed(w http.ResponseWriter, r *http.Request, next string) bool {
	if _, named := namedBy(r.Context()); !named || r.Header.Get("Authorization") != "" {
		return false
	}
	if _, err := a.auth.visitor(r); err != nil {
		a.fail(w, r, err)
	} else {
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
	return true
}

// login creates a session for the token in the form, sets the browser's cookie and redirects to the next page.
func (a *loginPages) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	secret := strings.TrimSpace(r.PostFormValue("token"))
	next := nextOf(r.PostForm)
	switch {
	case a.isOpen(w, r, next), a.isNamed(w, r, next):
		return
	case secret == "":
		a.loginPage(w, r, http.StatusOK, loginView{Next: next})
		return
	}
	a.startSession(w, r, next, func(context.Context) (access.Session, string, error) { return a.enter(r, secret) })
}

// startSession sets the cookie of a new session, ends the browser's previous session, and redirects.
func (a *loginPages) startSession(w http.ResponseWriter, r *http.Request, next string, create func(context.Context) (access.Session, string, error)) {
	session, sessionSecret, err := create(r.Context())
	p := a.problemOf(err)
	switch {
	case err == nil:
		if err := a.leave(r); err != nil { // the previous session expires by itself
			a.log.WarnContext(r.Context(), "session before the login not ended", "err", err)
		}
		http.SetCookie(w, a.auth.cookies.session(r, sessionSecret, session.ExpiresAt))
		http.Redirect(w, r, next, http.StatusSeeOther)
	case p.Status == http.StatusUnauthorized:
		a.loginPage(w, r, p.Status, loginView{Next: next, Error: "This token is unknown, expired or revoked."})
	case p.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", p.GetHeaders().Get("Retry-After"))
		wrong := p.Detail // of the token's logins
		if p.retry > 0 {
			wrong = fmt.Sprintf("Too many tokens from your address were refused. Try again in %d s.", seconds(p.retry))
		}
		a.loginPage(w, r, p.Status, loginView{Next: next, Error: wrong})
	case p.Status == http.StatusServiceUnavailable:
		a.loginPage(w, r, p.Status, loginView{Next: next, Error: databaseAway})
	default:
		a.fail(w, r, err)
	}
}

// databaseAway is the error of a login while the node cannot verify tokens.
const databaseAway = "The node does not reach its database, and cannot verify the token until then. Try again; the log of the node has the reason."

// enter creates a session for a token. It counts refusals.
func (a *loginPages) enter(r *http.Request, secret string) (access.Session, string, error) {
	if a.auth.keeper == nil {
		return access.Session{}, "", access.ErrDenied
	}
	shown := credential{secret, byLogin}
	if err := a.auth.guesses.check(r, a.auth.keeper, shown); err != nil {
		return access.Session{}, "", err
	}
	session, sessionSecret, err := a.createSession(r, secret)
	if errors.Is(err, access.ErrDenied) {
		a.auth.guesses.refused(r, shown)
	}
	return session, sessionSecret, err
}

// createSession creates a session, unless the token had too many lately. The second check of the token costs no query.
func (a *loginPages) createSession(r *http.Request, secret string) (access.Session, string, error) {
	t, err := a.auth.keeper.Authenticate(r.Context(), secret)
	if err != nil {
		return access.Session{}, "", err
	}
	if ok, _ := a.logins.spend(t.ID, maxLogins, a.now()); !ok {
		return access.Session{}, "", problem(http.StatusTooManyRequests, "Too many logins with this token. Try again in a second.")
	}
	return a.auth.keeper.Login(r.Context(), secret, clientAddr(r.Context()), r.UserAgent())
}

// leave ends the browser's session, if it has one, even if its person has lost all permissions.
func (a *loginPages) leave(r *http.Request) error {
	cookie, _ := r.Cookie(a.auth.cookies.sessionCookie(r)) // the only error is a missing cookie
	if cookie == nil || a.auth.keeper == nil {
		return nil
	}
	shown := credential{cookie.Value, bySession}
	if err := a.auth.guesses.check(r, a.auth.keeper, shown); err != nil {
		return orNone(err)
	}
	session, _, err := a.auth.keeper.Resume(r.Context(), shown.secret)
	if err != nil {
		if errors.Is(err, access.ErrDenied) {
			a.auth.guesses.refused(r, shown)
		}
		return orNone(err)
	}
	name, holder := session.Holder()
	ctx := access.As(r.Context(), access.Actor{Name: name, TokenID: holder, Addr: clientAddr(r.Context())})
	if err := a.auth.keeper.EndSession(ctx, session.ID); err != nil && !errors.Is(err, access.ErrNoSession) {
		return fmt.Errorf("log out: %w", err)
	}
	return nil
}

// orNone returns nil instead of access.ErrDenied: without a session, logging out is done.
func orNone(err error) error {
	if errors.Is(err, access.ErrDenied) {
		return nil
	}
	return err
}

// logout ends the session of the browser. The token stays valid for another login. The browser's cookie is removed even
// if the node could not end the session and returns an error.
func (a *loginPages) logout(w http.ResponseWriter, r *http.Request) {
	err := a.leave(r)
	gone := a.auth.cookies.session(r, "", time.Time{})
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	http.Redirect(w, r, loginPath, http.StatusSeeOther)
}

// loginFrom returns the login page's URL, with the requested page as next.
func loginFrom(target *url.URL) string {
	next := target.RequestURI()
	if next == "/" || len(next) > maxNext {
		return loginPath
	}
	return loginPath + "?" + url.Values{nextParameter: {next}}.Encode()
}

// nextParameter is the query parameter with the page after the login; maxNext bounds it, in bytes.
const (
	nextParameter = "next"
	maxNext       = 2 << 10
)

// nextOf returns the page of this node to open after the login: the front page, if none or an invalid one is given. A
// URL is invalid if a browser might resolve it to another host, and so if it contains characters that browsers rewrite
// or drop.
func nextOf(query url.Values) string {
	next := query.Get(nextParameter)
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

// loginView is the data of the login page.
type loginView struct {
	Next    string // page after the login
	Token   string // filled in
	Foreign bool   // another site linked here with a token
	Name    string // of the token that the browser is logged in with, or empty
	Error   string // why the given token was refused; empty before the first try
	Title   string // of the login provider; empty without one
}

// loginPage serves the login page.
func (a *loginPages) loginPage(w http.ResponseWriter, r *http.Request, status int, in loginView) {
	if provider := a.auth.persons.provider(); provider != nil {
		in.Title = provider.Title()
	}
	a.frame(w, r, PageContent{Name: "login", Title: "Log in", Status: status, Alone: true}, loginTemplate, in)
}
