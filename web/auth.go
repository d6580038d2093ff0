package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/acklinks"
	"deadman/internal/badges"
	"deadman/internal/pings"
)

// public reports whether a path needs no token: health, login and logout, static files, hooks, with requests that carry
// their own proof, and pings and links that acknowledge alerts, with secret addresses.
func public(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == loginPath || path == "/logout" || path == providerPath || path == callbackPath ||
		strings.HasPrefix(path, StaticPath) || strings.HasPrefix(path, hooksPath) || strings.HasPrefix(path, pings.Prefix) ||
		strings.HasPrefix(path, acklinks.Prefix) || strings.HasPrefix(path, badges.Prefix)
}

// authenticator finds who sends a request, and refuses what the sender may not do.
type authenticator struct {
	*responder
	persons *persons
	cookies cookies
	keeper  *access.Tokens // nil: the node has no tokens
	guesses *guesses
	quotas  Quotas                              // nil: the node has none
	open    func(context.Context) (bool, error) // whether everything is permitted, without a token
	relayed bool                                // an open node answers requests that came through a proxy, too
	health  *readinessPages
}

func newAuthenticator(o Options, by *responder) *authenticator {
	guesses := newGuesses(o.Log, o.Metrics, time.Now)
	return &authenticator{
		responder: by, persons: &persons{o.Logins, o.TrustedProxies, guesses}, cookies: cookies{o.PublicURL},
		keeper: o.Keeper, guesses: guesses, quotas: o.Quotas, open: o.Open, relayed: o.Proxied,
	}
}

// identify authenticates the sender of a request, or refuses the request. The quota of the sender's prefix applies from
// the first request on.
func (a *authenticator) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		v, err := a.visitor(r)
		if err == nil && a.quotas != nil {
			err = a.quotas.Ensure(r.Context(), v.token.Prefix)
		}
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(v.withActor(r)))
		case isManual(r) && a.lacksDatabase(r.Context(), err):
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), manualKey{}, true)))
		case a.problemOf(err).Status == http.StatusUnauthorized && isPage(r):
			http.Redirect(w, r, loginFrom(r.URL), http.StatusSeeOther)
		default:
			a.fail(w, r, err)
		}
	})
}

// ManualPath is the address of the documentation.
const ManualPath = "/docs"

// manualKey is the context's key of a request for the documentation during an outage of the database.
type manualKey struct{}

// isManual reports whether a request is for a page of the documentation, its search or a picture. The page of the API is
// not part of it.
func isManual(r *http.Request) bool {
	path := r.URL.Path
	return (path == ManualPath || strings.HasPrefix(path, ManualPath+"/")) && path != apiDocsPath &&
		(r.Method == http.MethodGet || r.Method == http.MethodHead) && !IsLive(r)
}

// lacksDatabase reports whether the database is away, and a sender that err refuses may be one that it knows.
func (a *authenticator) lacksDatabase(ctx context.Context, err error) bool {
	if a.problemOf(err).Status == http.StatusForbidden {
		return false
	}
	return LacksDatabase(a.health.lastReadiness(ctx).Conditions)
}

// isPage reports whether a browser requests a page.
func isPage(r *http.Request) bool { return r.Method == http.MethodGet && acceptsPage(r) }

func acceptsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// visitor returns the sender of a request. It counts and bounds refusals.
func (a *authenticator) visitor(r *http.Request) (principal, error) {
	if open, err := a.open(r.Context()); err != nil {
		return principal{}, err
	} else if open {
		return principal{open: true}, a.direct(r)
	}
	if v, named, err := a.persons.proxied(r); named {
		if err != nil {
			a.guesses.note(r, byProxy, "err", err)
		}
		return v, err
	}
	shown, err := a.credentialOf(r)
	if err != nil {
		a.persons.noteForeignHeader(r)
		return principal{}, err
	}
	if err := a.guesses.check(r, a.keeper, shown); err != nil {
		return principal{}, err
	}
	v, err := a.known(r.Context(), shown)
	var no *stranger
	switch {
	case errors.Is(err, access.ErrDenied):
		a.guesses.refused(r, shown)
	case errors.As(err, &no):
		a.guesses.note(r, byProvider, "err", err)
	}
	return v, err
}

// direct refuses a request to an open node that came through a proxy, since its sender may be on any machine.
func (a *authenticator) direct(r *http.Request) error {
	if a.relayed {
		return nil
	}
	var sign string
	switch header := forwarded(r); {
	case header != "":
		sign = "the header " + header
	case !r.ProtoAtLeast(1, 1): // the default of nginx
		sign = "its version, " + r.Proto + ","
	default:
		return nil
	}
	return problem(http.StatusForbidden, "without tokens, this node accepts requests of its own machine only, and %s shows that this request passed a proxy; "+
		"create a token on that machine (deadman token create NAME --scope admin), and send it with each request", sign)
}

// identity authenticates the sender again, for a request that visitor accepted before. It counts nothing.
func (a *authenticator) identity(r *http.Request) (principal, error) {
	if open, err := a.open(r.Context()); open || err != nil {
		return principal{open: open}, err
	}
	if v, named, err := a.persons.proxied(r); named {
		return v, err
	}
	shown, err := a.credentialOf(r)
	if err != nil {
		return principal{}, err
	}
	return a.known(r.Context(), shown)
}

// resourceScope is the kind of resources of an operation. It decides whether a token with a rule prefix may call the
// operation.
type resourceScope int

const (
	reachAll      resourceScope = iota // belongs to no rule: closed to a token with a prefix
	reachRule                          // the rule in the path
	reachFiltered                      // a list, filtered by the token's rules
	reachBody                          // the operation checks the rule itself
	reachPublic                        // reveals no rule
)

// admit lets an operation run if the visitor has its scope and may access its resources.
func (a *authenticator) admit(ctx huma.Context, next func(huma.Context)) {
	o, ok := operationOf(ctx)
	if !ok {
		return
	}
	v, rule := principalOf(ctx.Context()), ""
	if o.Reach == reachRule {
		rule = cmp.Or(ctx.Param("rule"), ctx.Param("name"))
	}
	err := v.requireScope(o.Scope)
	switch {
	case err != nil:
	case o.Reach == reachRule:
		err = v.requireRule(o.Scope, rule)
	case o.Reach == reachAll:
		err = v.requireUnrestricted()
	}
	if err != nil {
		r, w := humachi.Unwrap(ctx)
		a.fail(w, r, err)
		return
	}
	next(ctx)
}

// filterVisible restricts a list to the rules that the visitor sees.
func filterVisible(ctx context.Context, f futurejobs.Filter) futurejobs.Filter {
	f.RulePrefix = principalOf(ctx).token.Prefix
	return f
}

// needsRead, needsAll and needsAdmin guard routes that are no operations: pages, data of all rules, and the process.
func (a *authenticator) needsRead(next http.Handler) http.Handler {
	return a.needs(next, func(v principal) error { return v.requireScope(access.Read) })
}

// needsManual guards the documentation: it needs the scope read, or identify has found that the database is away.
func (a *authenticator) needsManual(next http.Handler) http.Handler {
	guarded := a.needsRead(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(manualKey{}) != nil {
			next.ServeHTTP(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

func (a *authenticator) needsAll(next http.Handler) http.Handler {
	return a.needs(next, func(v principal) error { return cmp.Or(v.requireScope(access.Read), v.requireUnrestricted()) })
}

func (a *authenticator) needsAdmin(next http.Handler) http.Handler {
	return a.needs(next, func(v principal) error { return cmp.Or(v.requireScope(access.Admin), v.requireUnrestricted()) })
}

func (a *authenticator) needs(next http.Handler, refuses func(principal) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := refuses(principalOf(r.Context())); err != nil {
			a.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// notFoundFor is the error for a thing of a hidden rule: the same as for a missing thing.
func notFoundFor(what string) error { return fmt.Errorf("%s: %w", what, futurejobs.ErrNotFound) }

// remains returns an error if the request no longer has the same visitor and permissions.
func (a *authenticator) remains(r *http.Request, v principal) error {
	now, err := a.identity(r)
	switch {
	case err != nil && a.problemOf(err).Status < http.StatusInternalServerError:
		return a.problemOf(err)
	case err != nil:
		return err
	case now.open != v.open || now.token.ID != v.token.ID || !now.token.Alike(v.token):
		return errOtherVisitor
	}
	return nil
}

// credentialOf returns the secret of a request: a program's token in a header, or a browser's session in its cookie.
func (a *authenticator) credentialOf(r *http.Request) (credential, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		if cookie, err := r.Cookie(a.cookies.sessionCookie(r)); err == nil {
			return credential{cookie.Value, bySession}, nil
		}
		return credential{}, problem(http.StatusUnauthorized, "a token is required; send Authorization: Bearer and the token, or open /login in a browser")
	}
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return credential{}, problem(http.StatusUnauthorized, "the Authorization header is not a Bearer token; write: Authorization: Bearer dm_…")
	}
	return credential{strings.TrimSpace(secret), byToken}, nil
}

// known authenticates a secret, or returns access.ErrDenied.
func (a *authenticator) known(ctx context.Context, shown credential) (principal, error) {
	switch {
	case a.keeper == nil:
		return principal{}, access.ErrDenied
	case shown.kind == bySession:
		session, token, err := a.keeper.Resume(ctx, shown.secret)
		if errors.Is(err, access.ErrDenied) {
			err = shown.denial()
		}
		if err != nil || session.Person == nil {
			return principal{token: token, session: session}, err
		}
		v, err := a.persons.admitted(*session.Person)
		v.session = session
		return v, err
	}
	token, err := a.keeper.Authenticate(ctx, shown.secret)
	return principal{token: token}, err
}
