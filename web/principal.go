package web

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"deadman/internal/access"
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

// withActor returns the request's context with the visitor, as actor of the audit log and with the token's bounds.
func (v principal) withActor(r *http.Request) context.Context {
	actor := access.Actor{Name: cmp.Or(v.token.Name, access.Loopback), TokenID: v.token.ID, Addr: clientAddr(r.Context())}
	ctx := access.Within(access.As(r.Context(), actor), v.token.Bounds())
	return context.WithValue(ctx, visitorKey{}, v)
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
	return problem(http.StatusForbidden, "%s is limited to the rules %s*, which do not include %q", v.token.Who(), v.token.Prefix, rule)
}

// requireUnrestricted refuses a token with a rule prefix.
func (v principal) requireUnrestricted() error {
	if v.token.Prefix == "" {
		return nil
	}
	return problem(http.StatusForbidden, "%s is limited to the rules %s*, and this operation is not about a rule", v.token.Who(), v.token.Prefix)
}

// publish refuses a subject outside the bounds of the token. A token with a rule prefix and without subjects has none.
func (v principal) publish(subject string) error {
	b := v.token.Bounds()
	if v.token.Prefix != "" && len(b.Publish) == 0 {
		return problem(http.StatusForbidden, "%s is limited to the rules %s*, and has no subject to publish to (bound publish); "+
			"an admin creates a token with it: deadman token create NAME --prefix '%s*' --scope events --publish 'SUBJECT'", v.token.Who(), v.token.Prefix, v.token.Prefix)
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

// isProxied reports whether a proxy names the person with each request.
func (v principal) isProxied() bool { return v.person != nil && v.person.By == access.ByProxy }

// tokenRef is the owner of permits; zero on an open node.
type tokenRef struct {
	id, who string
	guest   bool // its token has a prefix
}

// ref returns the visitor as the owner of permits.
func (v principal) ref() tokenRef {
	if v.open {
		return tokenRef{}
	}
	return tokenRef{id: v.token.ID, who: v.token.Who(), guest: v.token.Prefix != ""}
}

// tenant returns the visitor as the owner of permits, shared by all with the same prefix.
func (v principal) tenant() tokenRef {
	if v.token.Prefix == "" {
		return v.ref()
	}
	return tokenRef{id: v.token.Prefix + "*", who: "the rules " + v.token.Prefix + "*", guest: true}
}

// checker returns the visitor as the owner of permits for manual checks: its tenant. Others have no limit of their own.
func (v principal) checker() tokenRef {
	if v.token.Prefix == "" {
		return tokenRef{}
	}
	return v.tenant()
}

func (v principal) self() TokenSelf {
	s := TokenSelf{Name: v.token.Name, Open: v.open, Scopes: []string{}, Prefix: v.token.Prefix, Bounds: boundsOf(v.token)}
	if v.open {
		s.Name = access.Loopback
	}
	if v.person != nil {
		s.Login = v.person.By
	}
	for _, scope := range access.Scopes {
		if v.requireScope(scope) == nil {
			s.Scopes = append(s.Scopes, string(scope))
		}
	}
	return s
}
