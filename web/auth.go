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

// principal is the sender of a request, with its permissions.
type principal struct {
	token   access.Token   // for a person, the grants of the person's groups
	session access.Session // of a browser; without an ID for a program's token, or a person named by a proxy
	person  *access.Person // nil for a token
	open    bool           // everything is permitted, without a token
}

// anonymous reports whether the sender of a request is unknown.
func (v principal) anonymous() bool { return !v.open && v.token.ID == "" }

type visitorKey struct{}

// principalOf returns the sender of the request. If identify has not let the request through, the principal is anonymous
// and may do nothing.
func principalOf(ctx context.Context) principal {
	v, _ := ctx.Value(visitorKey{}).(principal)
	return v
}

// public reports whether a path needs no token: health, login and logout, static files, hooks, with requests that carry
// their own proof, and pings, with secret addresses.
func public(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == loginPath || path == "/logout" || path == providerPath || path == callbackPath ||
		strings.HasPrefix(path, StaticPath) || strings.HasPrefix(path, hooksPath) || strings.HasPrefix(path, pings.Prefix)
}

// identify authenticates the sender of a request, or refuses the request.
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

// isPage reports whether a browser requests a page.
func isPage(r *http.Request) bool { return r.Method == http.MethodGet && acceptsPage(r) }

func acceptsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// visitor returns the sender of a request. It counts and bounds refusals.
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

// direct refuses a request to an open node that came through a proxy, since its sender may be on any machine.
func (a *api) direct(r *http.Request) error {
	if a.Proxied {
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
	return problem(http.StatusForbidden, "this node is open to its own machine alone, and %s says that a proxy passed this request on; "+
		"make a token on that machine (deadman token create NAME --scope admin), and send it with each request", sign)
}

// identity authenticates the sender again, for a request that visitor accepted before. It counts nothing.
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

// withActor returns the request's context with the visitor, as actor of the audit log and with the token's bounds.
func (v principal) withActor(r *http.Request) context.Context {
	actor := access.Actor{Name: cmp.Or(v.token.Name, access.Loopback), TokenID: v.token.ID, Addr: clientAddr(r.Context())}
	ctx := access.Within(access.As(r.Context(), actor), v.token.Bounds())
	return context.WithValue(ctx, visitorKey{}, v)
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

// requireScope refuses a visitor without the scope, for any rule.
func (v principal) requireScope(s access.Scope) error {
	// A token may do on its own prefix all that its scopes permit.
	if v.open || v.token.May(s, v.token.Prefix) {
		return nil
	}
	return problem(http.StatusForbidden, "%s does not have the scope %s; it has %s", v.token.Who(), s, v.scopes())
}

// requireRule refuses a visitor without the scope for the rule.
func (v principal) requireRule(s access.Scope, rule string) error {
	if v.open || v.token.May(s, rule) {
		return nil
	}
	if err := v.requireScope(s); err != nil {
		return err
	}
	return problem(http.StatusForbidden, "%s is for the rules %s*, and %q is none of them", v.token.Who(), v.token.Prefix, rule)
}

// requireUnrestricted refuses a token with a rule prefix.
func (v principal) requireUnrestricted() error {
	if v.token.Prefix == "" {
		return nil
	}
	return problem(http.StatusForbidden, "%s is for the rules %s* alone, and this belongs to no rule", v.token.Who(), v.token.Prefix)
}

// publish refuses a subject on which the token may not publish. It refuses a token with a rule prefix and without
// subjects in the same way as requireUnrestricted.
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

// canSee reports whether the visitor may read the rule's data.
func (v principal) canSee(rule string) bool { return v.requireRule(access.Read, rule) == nil }

func (v principal) scopes() string {
	names := make([]string, len(v.token.Scopes))
	for i, s := range v.token.Scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// filterVisible restricts a list to the rules that the visitor sees.
func filterVisible(ctx context.Context, f futurejobs.Filter) futurejobs.Filter {
	f.RulePrefix = principalOf(ctx).token.Prefix
	return f
}

// needsRead and needsAll guard routes that are no operations: pages, and data of all rules.
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

// notFoundFor is the error for a thing of a hidden rule: the same as for a missing thing.
func notFoundFor(what string) error { return fmt.Errorf("%s: %w", what, futurejobs.ErrNotFound) }
