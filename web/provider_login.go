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

	"deadman/internal/access"
	"deadman/internal/logins"
)

const (
	// providerPath is where a login with the provider begins, and callbackPath where the provider leads back to.
	providerPath = loginPath + "/oidc"
	callbackPath = providerPath + "/callback"
	// loginTime is how long a browser may take for a login with the provider.
	loginTime = 10 * time.Minute
	// maxCode is the most that a code of a provider has, in bytes.
	maxCode = 4 << 10
	// maxClientLogins is how many logins with the provider are at work for one client at a time; logins.Provider bounds them all.
	maxClientLogins = 2
	// providerLogInterval is how far apart the lines of the log about a provider that fails are.
	providerLogInterval = 10 * time.Second
)

// newProviderLogins bounds what clients have a node ask the provider.
func newProviderLogins() *places[netip.Prefix] {
	return &places[netip.Prefix]{perNode: math.MaxInt64, perOwner: maxClientLogins, full: func(netip.Prefix, bool) *Problem {
		p := problem(http.StatusTooManyRequests, "%d logins from your address are under way; try again once one of them ended", maxClientLogins)
		p.retry = time.Second
		return p
	}}
}

var leavingTemplate = template.Must(template.New("leaving").Parse(`<div class="login card">
<h1>Log in</h1>
<p class="said" role="status"><a href="{{.At}}" rel="noreferrer">Go on to {{.Title}}</a></p>
</div>
`))

// errNotBegun means that a browser comes back from a login that it did not begin.
var errNotBegun = errors.New("this browser did not begin this login, or began it more than 10 minutes ago, or began another one since")

// errSpent means that a browser comes back from a login a second time.
var errSpent = errors.New("this login was used already")

// errNoProvider means that there is no provider to log in with.
var errNoProvider = problem(http.StatusNotFound, "people do not log in with a provider here; log in with a token")

// provider is the provider with which people log in now; nil: there is none.
func (a *api) provider() *logins.Provider {
	if config := a.Logins(); config != nil {
		return config.OIDC
	}
	return nil
}

// attempt is a login that a browser began, as its cookie has it.
type attempt struct {
	logins.Attempt
	Next string `json:"next"`
}

// beginLogin leads a browser to the provider. What has to come back is in a cookie of that browser alone. The browser goes on from a page and not
// by a redirect: pages of the node send forms to the node alone, and browsers hold redirects of a form to that, too.
func (a *api) beginLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	provider, next := a.provider(), nextOf(formOf(r))
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
	if full := a.logins.take(guesserOf(r)); full != nil {
		err = full
	} else {
		begun, at, err = provider.Begin(r.Context(), redirect)
		a.logins.leave(guesserOf(r))
	}
	if err != nil {
		a.failLogin(w, r, next, err)
		return
	}
	value, err := json.Marshal(attempt{begun, next})
	if err != nil {
		panic(err) // texts always marshal
	}
	http.SetCookie(w, a.attemptCookie(r, base64.RawURLEncoding.EncodeToString(value), int(loginTime.Seconds())))
	w.Header().Set("Refresh", "0; url="+at)
	a.frame(w, r, PageContent{Name: "login", Title: "Log in", Status: http.StatusOK, Alone: true}, leavingTemplate, struct{ At, Title string }{at, provider.Title()})
}

// formOf are the fields of a form that a request sends.
func formOf(r *http.Request) url.Values {
	_ = r.ParseForm() // what cannot be read has no fields
	return r.PostForm
}

// redirectURI is the one address to which a provider leads back: that of the public URL or, on a node that is reached on its machine alone, that
// of the host that was asked.
func (a *api) redirectURI(r *http.Request) (string, error) {
	switch {
	case a.PublicURL != "":
		return strings.TrimSuffix(a.PublicURL, "/") + callbackPath, nil
	case isLoopback(hostname(r.Host)):
		return "http://" + r.Host + callbackPath, nil
	}
	return "", problem(http.StatusForbidden, "a login with a provider needs the address of this node; set --public-url")
}

// attemptCookie is the cookie of a login under way. It is Lax, as the provider leads back from another site.
func (a *api) attemptCookie(r *http.Request, value string, seconds int) *http.Cookie {
	c := &http.Cookie{Name: "deadman_login", Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: a.isSecure(r)}
	if c.Secure {
		c.Name = "__Host-" + c.Name
	}
	return c
}

// attemptOf is the login that the browser began whose request comes back from a provider; the error is errNotBegun.
func (a *api) attemptOf(r *http.Request) (begun attempt, err error) {
	cookie, err := r.Cookie(a.attemptCookie(r, "", 0).Name)
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

// finishLogin makes a session for the person with whom a browser comes back from the provider.
//
//  1. The browser shows the cookie of the login that it began, whose state is that of the address. The cookie is gone then: a
//     login ends once.
//  2. The provider said no, or gives a code, which the node exchanges for an ID token. Wrong ones count as wrong tokens of the address do.
//  3. The group of the person is granted something. Then the state is spent on all nodes, as a browser may keep the cookie, and a provider
//     may give another code for the state.
//  4. The person gets in. The session before ends.
func (a *api) finishLogin(w http.ResponseWriter, r *http.Request) {
	config, asked := a.Logins(), r.URL.Query()
	switch {
	case config == nil || config.OIDC == nil:
		a.fail(w, r, errNoProvider)
		return
	case r.Method != http.MethodGet: // HEAD would use the code up
		a.fail(w, r, problem(http.StatusMethodNotAllowed, "a login comes back with GET"))
		return
	}
	http.SetCookie(w, a.attemptCookie(r, "", -1))
	begun, err := a.attemptOf(r)
	if err != nil {
		a.refuseLogin(w, r, err)
		return
	}
	if code := asked.Get("error"); code != "" {
		a.guesses.note(r, byProvider, "err", "the provider refuses: "+clipped(code, maxErrorShown))
		a.loginPage(w, r, http.StatusForbidden, loginView{Next: begun.Next, Wrong: providerRefusal(asked)})
		return
	}
	person, err := a.personOf(r, config.OIDC, begun, asked)
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
	a.letIn(w, r, begun.Next, func(ctx context.Context) (access.Session, string, error) {
		return a.Keeper.Admit(ctx, person, clientAddr(ctx), r.UserAgent())
	})
}

// spend uses up a login. It returns errSpent where a node used the login up in the last 24 hours, which is how long the memory has its state.
func (a *api) spend(ctx context.Context, begun attempt) error {
	var unique [sha256.Size]byte // no second request has the body of the first
	_, _ = rand.Read(unique[:])  // it never fails
	_, err := a.Memory.Begin(ctx, keyOf(callbackPath, begun.State), unique)
	if errors.Is(err, access.ErrOtherBody) {
		return errSpent
	}
	return err
}

// refuseLogin shows the way in again to a browser whose login can't go on.
func (a *api) refuseLogin(w http.ResponseWriter, r *http.Request, err error) {
	a.guesses.note(r, byProvider, "err", err)
	a.loginPage(w, r, http.StatusForbidden, loginView{Next: "/", Wrong: "The login can't go on: " + err.Error() + ". Log in again."})
}

// maxErrorShown is how much of a provider's words is shown, in bytes.
const maxErrorShown = 200

// providerRefusal is what a person is told of the error with which a provider leads back. Its words are the provider's, or of whom wrote the address.
func providerRefusal(asked url.Values) string {
	code := clipped(asked.Get("error"), maxErrorShown)
	if code == "access_denied" {
		return "The login provider did not let you in, or you cancelled the login."
	}
	says := "The login provider refuses the login: " + code
	if more := asked.Get("error_description"); more != "" {
		says += " (" + clipped(more, maxErrorShown) + ")"
	}
	return says + "."
}

// personOf exchanges the code of an address for the person. Codes that the provider refuses are bounded as tokens are.
func (a *api) personOf(r *http.Request, provider *logins.Provider, begun attempt, asked url.Values) (access.Person, error) {
	code := asked.Get("code")
	if issuer := asked.Get("iss"); code == "" || len(code) > maxCode || issuer != "" && issuer != provider.Issuer() {
		return access.Person{}, fmt.Errorf("%w: the provider leads back without a code of its own; log in again", logins.ErrPerson)
	}
	if a.Keeper == nil {
		return access.Person{}, access.ErrDenied
	}
	redirect, err := a.redirectURI(r)
	if err != nil {
		return access.Person{}, err
	}
	shown := credential{code, byProvider}
	if err := a.guesses.check(r, a.Keeper, shown); err != nil {
		return access.Person{}, err
	}
	if full := a.logins.take(guesserOf(r)); full != nil {
		return access.Person{}, full
	}
	defer a.logins.leave(guesserOf(r))
	person, err := provider.Finish(r.Context(), begun.Attempt, redirect, code)
	if errors.Is(err, logins.ErrPerson) { // what the provider is to blame for keeps nobody from logging in with a token
		a.guesses.refused(r, shown)
	}
	return person, err
}

// failLogin shows the way in again, and why a login with the provider failed.
func (a *api) failLogin(w http.ResponseWriter, r *http.Request, next string, err error) {
	var no *stranger
	var p *Problem
	switch {
	case errors.As(err, &no):
		a.guesses.note(r, byProvider, "err", err)
		a.fail(w, r, err)
		return
	case errors.As(err, &p):
		a.fail(w, r, err)
		return
	}
	p, ours := loginProblem(err)
	if ours {
		a.Metrics.ProviderFailed()
		a.providerLog.Do(func() {
			a.Log.ErrorContext(r.Context(), "login with the provider failed", "issuer", a.issuer(), "from", clientAddr(r.Context()), "err", err)
		})
	} else {
		a.guesses.note(r, byProvider, "err", err)
	}
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	a.loginPage(w, r, p.Status, loginView{Next: next, Wrong: strings.ToUpper(p.Detail[:1]) + p.Detail[1:] + "."})
}

// issuer is the provider's, for the log.
func (a *api) issuer() string {
	if provider := a.provider(); provider != nil {
		return provider.Issuer()
	}
	return ""
}
