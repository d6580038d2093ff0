package web

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"deadman/internal/access"
	"deadman/internal/logins"
)

// namedKey is the context's key for the person in a trusted proxy's headers.
type namedKey struct{}

// named is the person in a trusted proxy's headers, or the error of parsing them.
type named struct {
	person *access.Person
	err    error
}

// persons finds the people that trusted proxies, sessions and the login provider name.
type persons struct {
	logins         func() *logins.Config
	trustedProxies []netip.Prefix
	guesses        *guesses
}

// withNamed adds the person in a trusted proxy's headers to the context. It ignores such headers of other connections.
func (a *persons) withNamed(ctx context.Context, r *http.Request) context.Context {
	config := a.logins()
	if config == nil || config.Header == nil {
		return ctx
	}
	if _, isTrusted := peerOf(r, a.trustedProxies); !isTrusted {
		return ctx
	}
	person, err := config.Header.PersonOf(r.Header)
	if person == nil && err == nil {
		return ctx
	}
	return context.WithValue(ctx, namedKey{}, named{person, err})
}

// proxied returns the person named by a trusted proxy; named reports whether it names one. A token in the request takes
// precedence: permissions of the two are never combined.
func (a *persons) proxied(r *http.Request) (v principal, named bool, err error) {
	if len(r.Header.Values("Authorization")) > 0 {
		return principal{}, false, nil
	}
	by, ok := namedBy(r.Context())
	config := a.logins()
	switch {
	case !ok || config == nil || config.Header == nil:
		return principal{}, false, nil
	case by.err != nil:
		return principal{}, true, problem(http.StatusForbidden, "%v", by.err)
	}
	v, err = granted(config, *by.person)
	return v, true, err
}

func namedBy(ctx context.Context) (named, bool) {
	by, ok := ctx.Value(namedKey{}).(named)
	return by, ok
}

// noteForeignHeader counts a request without credentials that names a person in its headers, but not from a trusted
// proxy.
func (a *persons) noteForeignHeader(r *http.Request) {
	config := a.logins()
	if _, isTrusted := peerOf(r, a.trustedProxies); isTrusted || config == nil || config.Header == nil || !config.Header.Given(r.Header) {
		return
	}
	a.guesses.note(r, byProxy, "peer", r.RemoteAddr, "err", "the connection is not from one of --trusted-proxies, so that its header "+config.Header.Name+" counts for nothing")
}

// admitted returns the person of a session with current grants. If the person's provider was removed from the login
// file, the session is over.
func (a *persons) admitted(p access.Person) (principal, error) {
	config := a.logins()
	if config == nil || config.OIDC == nil || p.By != access.ByOIDC || p.Issuer != config.OIDC.Issuer() {
		return principal{}, sessionOver{}
	}
	return granted(config, p)
}

// granted returns a person with the grants of a login file. The error is a *stranger.
func granted(config *logins.Config, p access.Person) (principal, error) {
	token, ok := config.Grants.Of(p)
	if !ok {
		return principal{}, newStranger(p)
	}
	return principal{token: token, person: &p}, nil
}

// stranger is the error of a person without grants. It is a Problem, too.
type stranger struct{ *Problem }

// Unwrap implements the interface of errors.As.
func (s *stranger) Unwrap() error { return s.Problem }

// strangerTitle is the title of a page that refuses a stranger.
const strangerTitle = "None of your groups may use deadman"

func newStranger(p access.Person) *stranger {
	brought := "no groups, which are required; configure the provider or proxy to send the claim or header that the logins file names"
	if len(p.Groups) > 0 {
		brought = "the groups " + clipped(strings.Join(p.Groups, ", "), maxGroupsShown) +
			", to which the login file of this node grants nothing; ask for one of them to be added there, or to be put into another group"
	}
	no := problem(http.StatusForbidden, "the login of %s has %s", p, brought)
	no.Title = strangerTitle
	return &stranger{no}
}

// maxGroupsShown is the longest list of a person's groups in a message, in bytes.
const maxGroupsShown = 500

// clipped returns at most the given number of bytes of a text.
func clipped(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// loginProblem returns the problem of a failed login with a provider, and whether the provider or the node is at fault.
func loginProblem(err error) (p *Problem, ours bool) {
	switch {
	case errors.Is(err, logins.ErrPerson):
		return problem(http.StatusForbidden, "%v", err), false
	case errors.Is(err, logins.ErrBusy):
		return problem(http.StatusServiceUnavailable, "%v", err), false
	}
	return problem(http.StatusServiceUnavailable, "%v; try again, or log in with a token. The log of the node says more", logins.ErrProvider), true
}

// fromClient finds the client address of a request, and the person named by a trusted proxy. A request made by a page
// within the process keeps those of its visitor.
func (a *persons) fromClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clientAddr(r.Context()) == "" {
			ctx := context.WithValue(r.Context(), clientKey{}, clientOf(r, a.trustedProxies))
			r = r.WithContext(a.withNamed(ctx, r))
		}
		next.ServeHTTP(w, r)
	})
}

// provider returns the current login provider, or nil.
func (a *persons) provider() *logins.Provider {
	if config := a.logins(); config != nil {
		return config.OIDC
	}
	return nil
}

// issuer returns the provider's issuer, for the log.
func (a *persons) issuer() string {
	if provider := a.provider(); provider != nil {
		return provider.Issuer()
	}
	return ""
}
