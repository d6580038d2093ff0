package web

import (
	"context"
	"net/http"

	"deadman/internal/access"
)

// TokenSelf is the caller, with its permissions.
type TokenSelf struct {
	Name   string   `json:"name" doc:"Name of the token. For users, proxy: or oidc: and the user name; loopback if the node requires no token." example:"ci"`
	Login  string   `json:"login,omitempty" enum:"proxy,oidc" doc:"Login provider of the user: a trusted proxy or an OpenID provider. Absent for tokens and if the node requires no token."`
	Open   bool     `json:"open" doc:"Whether the node requires no token and permits everything."`
	Scopes []string `json:"scopes" nullable:"false" enum:"read,events,oncall,rules,admin" doc:"Scopes, including implied ones."`
	Prefix string   `json:"prefix,omitempty" doc:"Rule name prefix that the token is limited to. Absent: all rules." example:"acme-"`

	Bounds

	Quota *Quota `json:"quota,omitempty" doc:"Quota of the prefix and its usage."`
}

// selfAPI has the operation on the sender's own token.
type selfAPI struct {
	quotas *quotaAPI
}

func (a *selfAPI) register(all *operations) {
	register(all, operation{
		ID: "get-own-token", Tag: tagTokens, Method: http.MethodGet, Path: "/tokens/self", Summary: "get the current token or user and its scopes",
		Scope: access.Read, Reach: reachPublic,
	}, withBody(func(ctx context.Context, _ *nothing) (self TokenSelf, err error) {
		self = principalOf(ctx).self()
		self.Quota, err = a.quotas.ownQuota(ctx)
		return self, err
	}))
}

// SelfOf returns the sender of a request, with its permissions; without a name for an anonymous one.
func SelfOf(ctx context.Context) TokenSelf { return principalOf(ctx).self() }
