package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"deadman/internal/access"
	"deadman/internal/logins"
)

// namedKey is the context's key for the person whom the headers of a trusted proxy name.
type namedKey struct{}

// named is whom a trusted proxy names, or why its headers cannot be read.
type named struct {
	person *access.Person
	err    error
}

// withNamed adds to the context of a request whom a trusted proxy names. Headers of any other connection name nobody.
func (a *api) withNamed(ctx context.Context, r *http.Request) context.Context {
	config := a.Logins()
	if config == nil || config.Header == nil {
		return ctx
	}
	if _, isTrusted := peerOf(r, a.TrustedProxies); !isTrusted {
		return ctx
	}
	person, err := config.Header.PersonOf(r.Header)
	if person == nil && err == nil {
		return ctx
	}
	return context.WithValue(ctx, namedKey{}, named{person, err})
}

// proxied is the person whom a trusted proxy names; named reports whether it names one. A token in the request counts instead: the
// two are never added up.
func (a *api) proxied(r *http.Request) (v principal, named bool, err error) {
	if len(r.Header.Values("Authorization")) > 0 {
		return principal{}, false, nil
	}
	by, ok := namedBy(r.Context())
	config := a.Logins()
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

// noteForeignHeader counts a request without any other login whose headers name a person, and which came from no trusted proxy.
func (a *api) noteForeignHeader(r *http.Request) {
	config := a.Logins()
	if _, isTrusted := peerOf(r, a.TrustedProxies); isTrusted || config == nil || config.Header == nil || !config.Header.Given(r.Header) {
		return
	}
	a.guesses.note(r, byProxy, "peer", r.RemoteAddr, "err", "the connection is not from one of --trusted-proxies, so that its header "+config.Header.Name+" counts for nothing")
}

// admitted is the person of a session, as the login file is now. A person of a provider that is no more in it has no session.
func (a *api) admitted(p access.Person) (principal, error) {
	config := a.Logins()
	if config == nil || config.OIDC == nil || p.By != access.ByOIDC || p.Issuer != config.OIDC.Issuer() {
		return principal{}, sessionOver{}
	}
	return granted(config, p)
}

// granted is a person with what a login file grants. The error is a stranger.
func granted(config *logins.Config, p access.Person) (principal, error) {
	token, ok := config.Grants.Of(p)
	if !ok {
		return principal{}, newStranger(p)
	}
	return principal{token: token, person: &p}, nil
}

// isProxied reports whether a proxy names the person with each request.
func (v principal) isProxied() bool { return v.person != nil && v.person.By == access.ByProxy }

// stranger is a person to whose groups nothing is granted. It is a Problem, too.
type stranger struct{ *Problem }

// Unwrap is of errors.As.
func (s *stranger) Unwrap() error { return s.Problem }

// strangerTitle is what a page says to a stranger.
const strangerTitle = "None of your groups may use deadman"

func newStranger(p access.Person) *stranger {
	brought := "no groups, and without a group nobody may anything here; ask for the groups to be sent, by the claim or the header that the login file of this node names"
	if len(p.Groups) > 0 {
		brought = "the groups " + clipped(strings.Join(p.Groups, ", "), maxGroupsShown) +
			", to which the login file of this node grants nothing; ask for one of them to be added there, or to be put into another group"
	}
	no := problem(http.StatusForbidden, "the login of %s brings %s", p, brought)
	no.Title = strangerTitle
	return &stranger{no}
}

// maxGroupsShown is how much of a person's groups is shown, in bytes.
const maxGroupsShown = 500

// clipped is a text, or its beginning.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// loginProblem is what a person is told of a login with a provider that failed, and whether the provider or the node is to blame.
func loginProblem(err error) (p *Problem, ours bool) {
	switch {
	case errors.Is(err, logins.ErrPerson):
		return problem(http.StatusForbidden, "%v", err), false
	case errors.Is(err, logins.ErrBusy):
		return problem(http.StatusServiceUnavailable, "%v", err), false
	}
	return problem(http.StatusServiceUnavailable, "%v; try again, or log in with a token. The log of the node says more", logins.ErrProvider), true
}
