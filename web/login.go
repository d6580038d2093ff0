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

// maxForm is the most that the form of the login page sends, in bytes.
const maxForm = 4 << 10

//go:embed login.html
var loginHTML string

var loginTemplate = template.Must(template.New("login").Parse(loginHTML))

// loginPath is the way in.
const loginPath = "/login"

// loginForm shows the way in. A token in the address, as the node prints it when it makes its first one, is
// filled in, and logs nobody in before a person presses the button. Where a page of another site leads here,
// the token is not filled in: it may be that site's.
func (a *api) loginForm(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	next := nextOf(asked)
	if a.Open(r.Context()) {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	in := loginView{Next: next, Token: asked.Get("token")}
	if site := r.Header.Get("Sec-Fetch-Site"); in.Token != "" && site != "" && site != "none" && site != "same-origin" {
		in.Token, in.Foreign = "", true
	}
	if a.isNamed(w, r, next) {
		return
	}
	if v, err := a.visitor(r); err == nil {
		in.Name = v.token.Name
	}
	a.loginPage(w, r, http.StatusOK, in)
}

// isNamed answers a request whose person a proxy names, and who so has nothing to log in with: with the page that was asked for, or
// the reason why there is none.
func (a *api) isNamed(w http.ResponseWriter, r *http.Request, next string) bool {
	if _, named := namedBy(r.Context()); !named || r.Header.Get("Authorization") != "" {
		return false
	}
	if _, err := a.visitor(r); err != nil {
		a.fail(w, r, err)
	} else {
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
	return true
}

// login makes a session for a token that the form of the page sends, and gives its secret to the browser. From
// there one goes where one wanted to.
func (a *api) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	secret := strings.TrimSpace(r.PostFormValue("token"))
	next := nextOf(r.PostForm)
	switch {
	case a.Open(r.Context()):
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	case a.isNamed(w, r, next):
		return
	case secret == "":
		a.loginPage(w, r, http.StatusOK, loginView{Next: next})
		return
	}
	a.letIn(w, r, next, func(context.Context) (access.Session, string, error) { return a.enter(r, secret) })
}

// letIn gives the secret of a new session to the browser, ends the session that it had, and leads on.
func (a *api) letIn(w http.ResponseWriter, r *http.Request, next string, begin func(context.Context) (access.Session, string, error)) {
	session, sessionSecret, err := begin(r.Context())
	p := a.problemOf(err)
	switch {
	case err == nil:
		if err := a.leave(r); err != nil { // the session before ends by itself
			a.Log.WarnContext(r.Context(), "session before the login not ended", "err", err)
		}
		http.SetCookie(w, a.cookie(r, sessionSecret, session.ExpiresAt))
		http.Redirect(w, r, next, http.StatusSeeOther)
	case p.Status == http.StatusUnauthorized:
		a.loginPage(w, r, p.Status, loginView{Next: next, Wrong: "This token is unknown, expired or revoked."})
	case p.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", p.GetHeaders().Get("Retry-After"))
		a.loginPage(w, r, p.Status, loginView{Next: next, Wrong: fmt.Sprintf("Too many tokens from your address were refused. Try again in %d s.", seconds(p.retry))})
	default:
		a.fail(w, r, err)
	}
}

// enter makes a session for the holder of a token. Refusals are counted.
func (a *api) enter(r *http.Request, secret string) (access.Session, string, error) {
	if a.Keeper == nil {
		return access.Session{}, "", access.ErrDenied
	}
	shown := credential{secret, byLogin}
	if err := a.guesses.check(r, a.Keeper, shown); err != nil {
		return access.Session{}, "", err
	}
	session, sessionSecret, err := a.Keeper.Login(r.Context(), secret, clientAddr(r.Context()), r.UserAgent())
	if errors.Is(err, access.ErrDenied) {
		a.guesses.refused(r, shown)
	}
	return session, sessionSecret, err
}

// leave ends the session that a browser shows, if it is one, also where its person may nothing any more.
func (a *api) leave(r *http.Request) error {
	cookie, _ := r.Cookie(a.sessionCookie(r)) // the one error is that there is none
	if cookie == nil || a.Keeper == nil {
		return nil
	}
	shown := credential{cookie.Value, bySession}
	if err := a.guesses.check(r, a.Keeper, shown); err != nil {
		return orNone(err)
	}
	session, _, err := a.Keeper.Resume(r.Context(), shown.secret)
	if err != nil {
		if errors.Is(err, access.ErrDenied) {
			a.guesses.refused(r, shown)
		}
		return orNone(err)
	}
	name, holder := session.Holder()
	ctx := access.As(r.Context(), access.Actor{Name: name, TokenID: holder, Addr: clientAddr(r.Context())})
	if err := a.Keeper.EndSession(ctx, session.ID); err != nil && !errors.Is(err, access.ErrNoSession) {
		return fmt.Errorf("log out: %w", err)
	}
	return nil
}

// orNone is the error with which a session was not found; nil: there is none to end.
func orNone(err error) error {
	if errors.Is(err, access.ErrDenied) {
		return nil
	}
	return err
}

// logout ends the session of the browser. The token lives on: its holder can log in again. The browser
// forgets the session also where the node could not end it, which is an error.
func (a *api) logout(w http.ResponseWriter, r *http.Request) {
	err := a.leave(r)
	gone := a.cookie(r, "", time.Time{})
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	http.Redirect(w, r, loginPath, http.StatusSeeOther)
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

// cookie is what the browser keeps. No script reads it. Pages of other sites send it where a person
// follows a link of theirs (Lax), and so an alert can be opened from a chat; nothing is changed by
// that, for what changes something is a POST, which sameSite refuses from elsewhere.
func (a *api) cookie(r *http.Request, secret string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: a.sessionCookie(r), Value: secret, Path: "/", Expires: expires, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: a.isSecure(r),
	}
}

// loginView is what the page of the way in shows.
type loginView struct {
	Next    string // where one goes from it
	Token   string // that is filled in
	Foreign bool   // another site led here with a token
	Name    string // of the token that the browser is logged in with; empty: it is not
	Wrong   string // why the token that was given is none; empty: nobody tried yet
	Title   string // of the provider with which people log in; empty: there is none
}

// loginPage shows the way in.
func (a *api) loginPage(w http.ResponseWriter, r *http.Request, status int, in loginView) {
	if provider := a.provider(); provider != nil {
		in.Title = provider.Title()
	}
	a.frame(w, r, PageContent{Name: "login", Title: "Log in", Status: status, Alone: true}, loginTemplate, in)
}
