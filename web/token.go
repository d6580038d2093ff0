package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"deadman/internal/access"
)

// Token is a token as the API returns it, without its secret.
type Token struct {
	ID     string   `json:"id" doc:"ID of the token."`
	Name   string   `json:"name" doc:"Name of the token." example:"ci"`
	Scopes []string `json:"scopes" nullable:"false" enum:"read,events,oncall,rules,admin" doc:"Scopes of the token."`
	Prefix string   `json:"prefix,omitempty" doc:"Rule name prefix that the token is limited to. Absent: all rules." example:"acme-"`
	Bounds
	Status     string    `json:"status" enum:"active,expired,revoked" doc:"Status of the token."`
	CreatedAt  time.Time `json:"created_at" doc:"Time of creation."`
	CreatedBy  string    `json:"created_by" doc:"Actor who created the token."`
	ExpiresAt  time.Time `json:"expires_at,omitzero" doc:"Expiry of the token. Absent if it does not expire."`
	RevokedAt  time.Time `json:"revoked_at,omitzero" doc:"Time of the revocation. Absent if it is not revoked."`
	LastUsedAt time.Time `json:"last_used_at,omitzero" doc:"Time of the last use, to the minute. Absent if it was never used."`
}

// Bounds is the resources that a token may use, directly and through its rules, as the API returns it.
type Bounds struct {
	Subjects []string `json:"subjects,omitzero" nullable:"false" doc:"Subjects that its rules may subscribe to, with wildcards. Absent: all." example:"[\"acme.>\"]"`
	Publish  []string `json:"publish,omitzero" nullable:"false" doc:"Subjects that the token may publish to, its rules may emit events on, and its lookups may request. Absent: all." example:"[\"acme.>\"]"`
	Sources  []string `json:"sources,omitzero" nullable:"false" doc:"Sources that its lookups may query. A * at the end matches a prefix. Absent: all." example:"[\"acme-*\"]"`
	Handlers []string `json:"handlers,omitzero" nullable:"false" doc:"Handlers that its rules may use. A * at the end matches a prefix. Absent: all." example:"[\"acme-*\"]"`
}

func boundsOf(t access.Token) Bounds {
	b := t.Bounds()
	if b == nil {
		return Bounds{}
	}
	return Bounds{b.Subjects, b.Publish, b.Sources, b.Handlers}
}

// Uses describes the bounds in one line for users; "" without bounds.
func (b Bounds) Uses() string { return b.given().OrNil().String() }

// given returns the bounds for making a token.
func (b Bounds) given() access.Bounds {
	return access.Bounds{Subjects: b.Subjects, Publish: b.Publish, Sources: b.Sources, Handlers: b.Handlers}
}

func newToken(t access.Token, now time.Time) Token {
	out := Token{
		ID: t.ID, Name: t.Name, Scopes: []string{}, Prefix: t.Prefix, Bounds: boundsOf(t), Status: t.Status(now),
		CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, LastUsedAt: t.LastUsedAt,
	}
	for _, s := range t.Scopes {
		out.Scopes = append(out.Scopes, string(s))
	}
	return out
}

// NewToken is a newly made token.
type NewToken struct {
	Token
	Secret string `json:"secret" doc:"Secret of the token, for the Authorization header. It is returned only once."`
}

// TokenRequest is the body of a request that makes a token.
type TokenRequest struct {
	Name   string   `json:"name" doc:"Name of the token, unique among active tokens." example:"ci"`
	Scopes []string `json:"scopes" nullable:"false" doc:"One or more of read, events, oncall, rules and admin. oncall includes read, rules includes oncall, admin includes all." example:"events"`
	Prefix string   `json:"prefix,omitempty" doc:"Rule name prefix to limit the token to. With a prefix, absent subjects, publish, sources and handlers mean none." example:"acme-*"`
	Bounds
	Expires string `json:"expires,omitempty" doc:"Lifetime of the token, such as 90d. Default: no expiry." example:"90d"`
}

// tokenAPI has the operations on tokens.
type tokenAPI struct {
	keeper *access.Tokens // nil: the node has no tokens
	quotas *quotaAPI
	now    func() time.Time
}

// register registers the operations on tokens. A node without a keeper has none.
func (a *tokenAPI) register(all *operations) {
	register(all, operation{
		ID: "list-tokens", Tag: tagTokens, Method: "GET", Path: "/tokens", Summary: "list tokens, newest first, including revoked and expired ones",
		Scope: access.Admin, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-token", Tag: tagTokens, Method: "POST", Path: "/tokens", Summary: "create a token",
		Description: "Accepts no Idempotency-Key, because the secret is not stored and cannot be returned again. The first token of a node must have " +
			"the scope admin and no prefix.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusCreated, Errors: []int{http.StatusConflict},
	}, withBody(a.create))
	register(all, operation{
		ID: "revoke-token", Tag: tagTokens, Method: "DELETE", Path: "/tokens/{id}", Summary: "revoke a token, by ID or name",
		Scope: access.Admin, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, noContent(a.revoke))
}

// needTokens returns the store of tokens, or a problem if the node has none.
func needTokens(keeper *access.Tokens) (*access.Tokens, error) {
	if keeper == nil {
		return nil, problem(http.StatusNotFound, "this node has no tokens")
	}
	return keeper, nil
}

func (a *tokenAPI) list(ctx context.Context, in *wholeListIn) (Page[Token], error) {
	k, err := needTokens(a.keeper)
	if err != nil {
		return Page[Token]{}, err
	}
	all, err := k.List(ctx)
	if err != nil {
		return Page[Token]{}, err
	}
	if in.Cursor != "" { // the id of the last one; ids of later tokens are greater
		all = slices.DeleteFunc(all, func(t access.Token) bool { return t.ID >= string(in.Cursor) })
	}
	show := func(t access.Token) Token { return newToken(t, a.now()) }
	return pageFrom(all, in.Limit, show, func(t access.Token) string { return t.ID }), nil
}

// newTokenIn is a request that makes a token.
type newTokenIn struct {
	Once string `header:"Idempotency-Key" hidden:"true"`
	Body TokenRequest
}

func (a *tokenAPI) create(ctx context.Context, in *newTokenIn) (NewToken, error) {
	if in.Once != "" {
		return NewToken{}, refused("header.Idempotency-Key", "the secret of a token is not stored and cannot be returned again; omit the key")
	}
	k, err := needTokens(a.keeper)
	if err != nil {
		return NewToken{}, err
	}
	request := access.TokenRequest{Name: in.Body.Name, Prefix: in.Body.Prefix, Bounds: in.Body.given()}
	for _, s := range in.Body.Scopes {
		request.Scopes = append(request.Scopes, access.Scope(strings.TrimSpace(s)))
	}
	if in.Body.Expires != "" {
		span, err := document.ParseDuration(in.Body.Expires)
		if err != nil {
			return NewToken{}, refused("body.expires", "%v", err)
		}
		if span <= 0 {
			return NewToken{}, refused("body.expires", "%s is not positive; set a duration such as 90d, or omit it for a token without expiry", in.Body.Expires)
		}
		request.Expires = time.Duration(span)
	}
	if err := mayComeFirst(ctx, k, request); err != nil {
		return NewToken{}, err
	}
	t, secret, err := k.Create(ctx, request)
	if err != nil {
		return NewToken{}, err
	}
	a.quotas.listFor(ctx, t.Prefix)
	return NewToken{Token: newToken(t, a.now()), Secret: secret}, nil
}

// mayComeFirst refuses a first token that could not make others: once a token exists, every request needs one.
func mayComeFirst(ctx context.Context, k *access.Tokens, w access.TokenRequest) error {
	if !principalOf(ctx).open || w.Prefix == "" && slices.Contains(w.Scopes, access.Admin) {
		return nil
	}
	issued, err := k.EverIssued(ctx)
	if err != nil || issued {
		return err
	}
	return refused("body.scopes", "this would be the first token, and all requests need a token from then on; create a token with the scope admin and no prefix first")
}

func (a *tokenAPI) revoke(ctx context.Context, in *struct {
	ID identifier `path:"id" doc:"ID or name of the token." example:"ci"`
},
) error {
	k, err := needTokens(a.keeper)
	if err != nil {
		return err
	}
	return k.Revoke(ctx, string(in.ID))
}
