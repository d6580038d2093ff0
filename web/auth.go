package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/internal/pings"
)

// principal is who sent a request, and what is open to them.
type principal struct {
	token   access.Token   // of a person, what is granted to the person's groups
	session access.Session // of a browser; without an ID: a program showed the token, or a proxy named the person
	person  *access.Person // nil: it is a token
	open    bool           // everything is, without a token
}

// anonymous reports whether it was not found out who sent a request.
func (v principal) anonymous() bool { return !v.open && v.token.ID == "" }

type visitorKey struct{}

// principalOf is who sent the request; nobody, to whom nothing is open, where identify did not
// let it through.
func principalOf(ctx context.Context) principal {
	v, _ := ctx.Value(visitorKey{}).(principal)
	return v
}

// public are the addresses that answer without a token: what says whether the node is well,
// the way in and out, what pages load, hooks, whose requests prove themselves, and pings, whose addresses
// are secrets.
func public(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == loginPath || path == "/logout" || path == providerPath || path == callbackPath ||
		strings.HasPrefix(path, StaticPath) || strings.HasPrefix(path, hooksPath) || strings.HasPrefix(path, pings.Prefix)
}

// identify finds out who sends a request, or refuses it.
func (a *api) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if public(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		v, err := a.visitor(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(v.withActor(r)))
		case a.problemOf(err).Status == http.StatusUnauthorized && isPage(r):
			http.Redirect(w, r, loginFrom(r.URL), http.StatusSeeOther)
		default:
			a.fail(w, r, err)
		}
	})
}

// isPage reports whether a person in a browser asks for a page.
func isPage(r *http.Request) bool { return r.Method == http.MethodGet && acceptsPage(r) }

func acceptsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// visitor is who sends a request. Refusals are counted and bounded.
func (a *api) visitor(r *http.Request) (principal, error) {
	if a.Open(r.Context()) {
		return principal{open: true}, a.direct(r)
	}
	if v, named, err := a.proxied(r); named {
		if err != nil {
			a.guesses.note(r, byProxy, "err", err)
		}
		return v, err
	}
	shown, err := a.credentialOf(r)
	if err != nil {
		a.noteForeignHeader(r)
		return principal{}, err
	}
	if err := a.guesses.check(r, a.Keeper, shown); err != nil {
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

// direct refuses a request to an open node that a proxy passed on: its sender may be anywhere.
func (a *api) direct(r *http.Request) error {
	if a.Proxied {
		return nil
	}
	var sign string
	switch header := forwarded(r); {
	case header != "":
		sign = "the header " + header
	case !r.ProtoAtLeast(1, 1): // as nginx speaks, where it is not told otherwise
		sign = "its version, " + r.Proto + ","
	default:
		return nil
	}
	return problem(http.StatusForbidden, "this node is open to its own machine alone, and %s says that a proxy passed this request on; "+
		"make a token on that machine (deadman token create NAME --scope admin), and send it with each request", sign)
}

// identity is who would send a request now, of which visitor knew before who sends it. Nothing is counted.
func (a *api) identity(r *http.Request) (principal, error) {
	if a.Open(r.Context()) {
		return principal{open: true}, nil
	}
	if v, named, err := a.proxied(r); named {
		return v, err
	}
	shown, err := a.credentialOf(r)
	if err != nil {
		return principal{}, err
	}
	return a.known(r.Context(), shown)
}

// withActor is the context in which the visitor does what is done.
func (v principal) withActor(r *http.Request) context.Context {
	actor := access.Actor{Name: cmp.Or(v.token.Name, access.Loopback), TokenID: v.token.ID, Addr: clientAddr(r.Context())}
	ctx := access.Within(access.As(r.Context(), actor), v.token.Bounds())
	return context.WithValue(ctx, visitorKey{}, v)
}

// resourceScope is what of deadman an operation is about. It says what a token may do that is bound
// to the rules of a prefix.
type resourceScope int

const (
	reachAll      resourceScope = iota // what belongs to no rule: not for such a token
	reachRule                          // the rule in the path
	reachFiltered                      // a list, which is narrowed to the token's rules
	reachBody                          // the operation looks at the rule itself, with allow or sees
	reachPublic                        // what no rule is told of
)

// admit lets an operation go on if its scope and its reach are the visitor's.
func (a *api) admit(ctx huma.Context, next func(huma.Context)) {
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

// requireScope refuses what the token has no scope for, on whatever rule.
func (v principal) requireScope(s access.Scope) error {
	// A token may do on its own prefix what it may do at all.
	if v.open || v.token.May(s, v.token.Prefix) {
		return nil
	}
	return problem(http.StatusForbidden, "%s does not have the scope %s; it has %s", v.token.Who(), s, v.scopes())
}

// requireRule refuses what the token does not allow on a rule.
func (v principal) requireRule(s access.Scope, rule string) error {
	if v.open || v.token.May(s, rule) {
		return nil
	}
	if err := v.requireScope(s); err != nil {
		return err
	}
	return problem(http.StatusForbidden, "%s is for the rules %s*, and %q is none of them", v.token.Who(), v.token.Prefix, rule)
}

// requireUnrestricted refuses a token that is bound to a prefix.
func (v principal) requireUnrestricted() error {
	if v.token.Prefix == "" {
		return nil
	}
	return problem(http.StatusForbidden, "%s is for the rules %s* alone, and this belongs to no rule", v.token.Who(), v.token.Prefix)
}

// publish refuses a subject that the token may not publish on. A token with a prefix and nothing to publish on is refused as
// for all that belongs to no rule.
func (v principal) publish(subject string) error {
	b := v.token.Bounds()
	if v.token.Prefix != "" && len(b.Publish) == 0 {
		return v.requireUnrestricted()
	}
	if err := b.MayPublish(subject); err != nil {
		return problem(http.StatusForbidden, "%v", err)
	}
	return nil
}

// canSee reports whether what is about a rule is shown to the visitor.
func (v principal) canSee(rule string) bool { return v.requireRule(access.Read, rule) == nil }

func (v principal) scopes() string {
	names := make([]string, len(v.token.Scopes))
	for i, s := range v.token.Scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// filterVisible narrows a list to what the visitor sees.
func filterVisible(ctx context.Context, f futurejobs.Filter) futurejobs.Filter {
	f.RulePrefix = principalOf(ctx).token.Prefix
	return f
}

// needsRead and needsAll guard what is no operation: pages, and what tells of all rules.
func (a *api) needsRead(next http.Handler) http.Handler {
	return a.needs(next, func(v principal) error { return v.requireScope(access.Read) })
}

func (a *api) needsAll(next http.Handler) http.Handler {
	return a.needs(next, func(v principal) error {
		if err := v.requireScope(access.Read); err != nil {
			return err
		}
		return v.requireUnrestricted()
	})
}

func (a *api) needs(next http.Handler, refuses func(principal) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := refuses(principalOf(r.Context())); err != nil {
			a.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// notFoundFor is what somebody is told who asks for a thing of a rule they do not see: what they
// would be told if it were not there.
func notFoundFor(what string) error { return fmt.Errorf("%s: %w", what, futurejobs.ErrNotFound) }
