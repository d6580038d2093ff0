package web

import (
	"context"
	"net/http"

	"deadman/internal/access"
)

// Self is the caller, with its permissions.
type Self struct {
	Name   string   `json:"name" doc:"The token's; loopback where the node is open; proxy: or oidc: and a name for a person without a token." example:"ci"`
	Login  string   `json:"login,omitempty" enum:"proxy,oidc" doc:"Who vouches for the person: a trusted proxy, or an OpenID provider. Absent: it is a token, or the node is open."`
	Open   bool     `json:"open" doc:"The node asks nobody for a token, and everything may be done."`
	Scopes []string `json:"scopes" nullable:"false" enum:"read,events,oncall,rules,admin" doc:"With those that they imply."`
	Prefix string   `json:"prefix,omitempty" doc:"What the names of its rules begin with; absent: all rules." example:"acme-"`

	Bounds

	Quota *Quota `json:"quota,omitempty" doc:"What the rules and tokens of its prefix may take in all, and what they take."`
}

// selfAPI has the operation on the sender's own token.
type selfAPI struct {
	quotas *quotaAPI
}

func (a *selfAPI) register(all *operations) {
	register(all, operation{
		ID: "get-own-token", Tag: tagTokens, Method: http.MethodGet, Path: "/tokens/self", Does: "says who asks, and what they may",
		Scope: access.Read, Reach: reachPublic,
	}, withBody(func(ctx context.Context, _ *nothing) (self Self, err error) {
		self = principalOf(ctx).self()
		self.Quota, err = a.quotas.ownQuota(ctx)
		return self, err
	}))
}

// SelfOf returns the sender of a request, with its permissions; without a name for an anonymous one.
func SelfOf(ctx context.Context) Self { return principalOf(ctx).self() }
