package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"deadman/internal/access"
	"deadman/internal/logins"
)

const (
	// providerPath starts a login with the provider; the provider redirects to callbackPath.
	providerPath = loginPath + "/oidc"
	callbackPath = providerPath + "/callback"
	// loginTime is the limit for a login with the provider.
	loginTime = 10 * time.Minute
	// maxCode is the longest code of a provider, in bytes.
	maxCode = 4 << 10
	// maxClientLogins bounds one client's concurrent logins with the provider; logins.Provider bounds all of them.
	maxClientLogins = 2
	// providerLogInterval is the shortest time between two log messages about a failing provider.
	providerLogInterval = 10 * time.Second
)

// newProviderLogins bounds the requests to the provider per client.
func newProviderLogins() *semaphore[netip.Prefix] {
	return &semaphore[netip.Prefix]{perNode: math.MaxInt64, perOwner: maxClientLogins, full: func(netip.Prefix, bool) *Problem {
		p := problem(http.StatusTooManyRequests, "%d logins from your address are in progress; retry when one of them has ended", maxClientLogins)
		p.retry = time.Second
		return p
	}}
}

var leavingTemplate = template.Must(template.New("leaving").Parse(`<div class="login card">
<h1>Log in</h1>
<p class="notice" role="status"><a href="{{.At}}" rel="noreferrer">Go on to {{.Title}}</a></p>
</div>
`))

// errNotBegun means that a browser returns from a login that it did not begin.
var errNotBegun = errors.New("the login was not started in this browser, has expired after 10 minutes, or was replaced by a newer one")

// errSpent means that a browser returns from a login a second time.
var errSpent = errors.New("the login was used already")

// errNoProvider means that the node has no login provider.
var errNoProvider = problem(http.StatusNotFound, "this node has no login provider; log in with a token")

// attempt is a login in progress, as stored in the browser's cookie.
type attempt struct {
	logins.Attempt
	Next string `json:"next"`
}

// providerLogin logs people in with the provider.
type providerLogin struct {
	*loginPages
	memory    IdempotencyStore
	metrics   *Metrics
	publicURL string
	permits   *semaphore[netip.Prefix] // of requests to the provider, by their client
	failures  rate.Sometimes           // limits the log messages about failures of the provider
}

// start sends a browser to the provider, with the attempt in a cookie. It serves a page that refreshes instead of a
// redirect: the node's pages may submit forms only to the node, and browsers apply that to redirects of a form, too.
func (a *providerLogin) start(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	provider, next := a.auth.persons.provider(), nextOf(formOf(r))
	if provider == nil {
		a.fail(w, r, errNoProvider)
		return
	}
	redirect, err := a.redirectURI(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	var begun logins.Attempt
	var at string
	if full := a.permits.acquire(guesserOf(r)); full != nil {
		err = full
	} else {
		begun, at, err = provider.Begin(r.Context(), redirect)
		a.permits.release(guesserOf(r))
	}
	if err != nil {
		a.failLogin(w, r, next, err)
		return
	}
	value, err := json.Marshal(attempt{begun, next})
	if err != nil {
		panic(err) // texts always marshal
	}
	http.SetCookie(w, a.auth.cookies.attempt(r, base64.RawURLEncoding.EncodeToString(value), int(loginTime.Seconds())))
	w.Header().Set("Refresh", "0; url="+at)
	a.frame(w, r, PageContent{Name: "login", Title: "Log in", Status: http.StatusOK, Alone: true}, leavingTemplate, struct{ At, Title string }{at, provider.Title()})
}

// formOf returns the form fields of a request.
func formOf(r *http.Request) url.Values {
	_ = r.ParseForm() // an invalid form has no fields
	return r.PostForm
}

// redirectURI returns the address to which a provider redirects: that of the public URL or, on a node reached from its
// own machine only, that of the requested host.
func (a *providerLogin) redirectURI(r *http.Request) (string, error) {
	switch {
	case a.publicURL != "":
		return strings.TrimSuffix(a.publicURL, "/") + callbackPath, nil
	case isLoopback(hostname(r.Host)):
		return "http://" + r.Host + callbackPath, nil
	}
	return "", problem(http.StatusForbidden, "a login with a provider requires the public URL of this node; set --public-url")
}

// attemptOf returns the login that the returning browser began, or errNotBegun.
func (a *providerLogin) attemptOf(r *http.Request) (begun attempt, err error) {
	cookie, err := r.Cookie(a.auth.cookies.attempt(r, "", 0).Name)
	if err != nil {
		return attempt{}, errNotBegun
	}
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || json.Unmarshal(text, &begun) != nil || !begun.Is(r.URL.Query().Get("state")) {
		return attempt{}, errNotBegun
	}
	begun.Next = nextOf(url.Values{nextParameter: {begun.Next}})
	return begun, nil
}

// finish creates a session for a person returning from the provider.
//
//  1. The browser shows the cookie of the login that it began, with the state of the URL. The cookie is deleted then: a
//     login ends once.
//  2. The provider refuses, or returns a code, and the node exchanges the code for an ID token. Wrong codes count like
//     wrong tokens of the address.
//  3. One of the person's groups has grants. Then the state is used up on all nodes, since a browser may keep the
//     cookie, and a provider may return another code for the state.
//  4. The person gets a session. The previous session ends.
func (a *providerLogin) finish(w http.ResponseWriter, r *http.Request) {
	config, query := a.auth.persons.logins(), r.URL.Query()
	switch {
	case config == nil || config.OIDC == nil:
		a.fail(w, r, errNoProvider)
		return
	case r.Method != http.MethodGet: // HEAD would use the code up
		a.fail(w, r, problem(http.StatusMethodNotAllowed, "a login returns with GET"))
		return
	}
	http.SetCookie(w, a.auth.cookies.attempt(r, "", -1))
	begun, err := a.attemptOf(r)
	if err != nil {
		a.refuseLogin(w, r, err)
		return
	}
	if code := query.Get("error"); code != "" {
		a.auth.guesses.note(r, byProvider, "err", "the provider refuses: "+clipped(code, maxErrorShown))
		a.loginPage(w, r, http.StatusForbidden, loginView{Next: begun.Next, Error: providerRefusal(query)})
		return
	}
	person, err := a.personOf(r, config.OIDC, begun, query)
	if err == nil {
		_, err = granted(config, person)
	}
	if err == nil {
		err = a.spend(r.Context(), begun)
	}
	switch {
	case errors.Is(err, errSpent):
		a.refuseLogin(w, r, err)
		return
	case err != nil:
		a.failLogin(w, r, begun.Next, err)
		return
	}
	a.startSession(w, r, begun.Next, func(ctx context.Context) (access.Session, string, error) {
		return a.auth.keeper.Admit(ctx, person, clientAddr(ctx), r.UserAgent())
	})
}

// spend uses up a login. It returns errSpent if a node used it in the last 24 hours, the time that the memory keeps its
// state.
func (a *providerLogin) spend(ctx context.Context, begun attempt) error {
	var unique [sha256.Size]byte // no second request has the body of the first
	_, _ = rand.Read(unique[:])  // it never fails
	_, err := a.memory.Begin(ctx, keyOf(callbackPath, begun.State), unique)
	if errors.Is(err, access.ErrOtherBody) {
		return errSpent
	}
	return err
}

// refuseLogin serves the login page to a browser after an invalid login.
func (a *providerLogin) refuseLogin(w http.ResponseWriter, r *http.Request, err error) {
	a.auth.guesses.note(r, byProvider, "err", err)
	a.loginPage(w, r, http.StatusForbidden, loginView{Next: "/", Error: "The login can't go on: " + err.Error() + ". Log in again."})
}

// maxErrorShown is the longest error text of a provider in a message, in bytes.
const maxErrorShown = 200

// providerRefusal returns the message for a provider's error. Its words are those of the provider, or of the URL's
// author.
func providerRefusal(query url.Values) string {
	code := clipped(query.Get("error"), maxErrorShown)
	if code == "access_denied" {
		return "The login provider did not let you in, or you cancelled the login."
	}
	text := "The login provider refuses the login: " + code
	if more := query.Get("error_description"); more != "" {
		text += " (" + clipped(more, maxErrorShown) + ")"
	}
	return text + "."
}

// personOf exchanges the code of a URL for the person. Refused codes are bounded like tokens.
func (a *providerLogin) personOf(r *http.Request, provider *logins.Provider, begun attempt, query url.Values) (access.Person, error) {
	code := query.Get("code")
	if issuer := query.Get("iss"); code == "" || len(code) > maxCode || issuer != "" && issuer != provider.Issuer() {
		return access.Person{}, fmt.Errorf("%w: the provider leads back without a code of its own; log in again", logins.ErrPerson)
	}
	if a.auth.keeper == nil {
		return access.Person{}, access.ErrDenied
	}
	redirect, err := a.redirectURI(r)
	if err != nil {
		return access.Person{}, err
	}
	shown := credential{code, byProvider}
	if err := a.auth.guesses.check(r, a.auth.keeper, shown); err != nil {
		return access.Person{}, err
	}
	if full := a.permits.acquire(guesserOf(r)); full != nil {
		return access.Person{}, full
	}
	defer a.permits.release(guesserOf(r))
	person, err := provider.Finish(r.Context(), begun.Attempt, redirect, code)
	if errors.Is(err, logins.ErrPerson) { // a failure of the provider must not block logins with a token
		a.auth.guesses.refused(r, shown)
	}
	return person, err
}

// failLogin serves the login page with the reason that a login with the provider failed.
func (a *providerLogin) failLogin(w http.ResponseWriter, r *http.Request, next string, err error) {
	var no *stranger
	var p *Problem
	switch {
	case errors.As(err, &no):
		a.auth.guesses.note(r, byProvider, "err", err)
		a.fail(w, r, err)
		return
	case errors.As(err, &p):
		a.fail(w, r, err)
		return
	}
	p, ours := loginProblem(err)
	if ours {
		a.metrics.ProviderFailed()
		a.failures.Do(func() {
			a.log.ErrorContext(r.Context(), "login with the provider failed", "issuer", a.auth.persons.issuer(), "from", clientAddr(r.Context()), "err", err)
		})
	} else {
		a.auth.guesses.note(r, byProvider, "err", err)
	}
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	a.loginPage(w, r, p.Status, loginView{Next: next, Error: strings.ToUpper(p.Detail[:1]) + p.Detail[1:] + "."})
}
