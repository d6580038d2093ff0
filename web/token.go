package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"deadman/internal/access"
	"deadman/rules"
)

// Token is a token as the API returns it, without its secret.
type Token struct {
	ID     string   `json:"id"`
	Name   string   `json:"name" example:"ci"`
	Scopes []string `json:"scopes" nullable:"false" enum:"read,events,oncall,rules,admin"`
	Prefix string   `json:"prefix,omitempty" doc:"What the names of its rules begin with; absent: all rules." example:"acme-"`
	Bounds
	Standing   string    `json:"standing" enum:"live,expired,revoked"`
	CreatedAt  time.Time `json:"created_at"`
	CreatedBy  string    `json:"created_by"`
	ExpiresAt  time.Time `json:"expires_at,omitzero" doc:"Absent: never."`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero" doc:"To the minute; absent: never."`
}

// Bounds is the resources that a token may use, directly and through its rules, as the API returns it.
type Bounds struct {
	Subjects []string `json:"subjects,omitzero" nullable:"false" doc:"Subjects that its rules may listen to, with wildcards; absent: all." example:"[\"acme.>\"]"`
	Publish  []string `json:"publish,omitzero" nullable:"false" doc:"Subjects that it may publish on, that its rules may emit on, and that its lookups may request on; absent: all." example:"[\"acme.>\"]"`
	Sources  []string `json:"sources,omitzero" nullable:"false" doc:"Sources that its lookups may ask; a * at the end stands for all that begin so; absent: all." example:"[\"acme-*\"]"`
	Handlers []string `json:"handlers,omitzero" nullable:"false" doc:"Handlers that its rules may name, as sources; absent: all." example:"[\"acme-*\"]"`
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
		ID: t.ID, Name: t.Name, Scopes: []string{}, Prefix: t.Prefix, Bounds: boundsOf(t), Standing: t.Standing(now),
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
	Secret string `json:"secret" doc:"What its holder sends. It is shown here and never again."`
}

// TokenRequest is the body of a request that makes a token.
type TokenRequest struct {
	Name   string   `json:"name" doc:"No two live tokens have the same." example:"ci"`
	Scopes []string `json:"scopes" nullable:"false" doc:"At least one of read, events, oncall, rules and admin. oncall implies read, rules oncall, and admin all." example:"events"`
	Prefix string   `json:"prefix,omitempty" doc:"Only rules whose names begin so. Then what is absent of subjects, publish, sources and handlers is none." example:"acme-*"`
	Bounds
	Expires string `json:"expires,omitempty" doc:"A span from now; absent: never." example:"90d"`
}

// tokenAPI has the operations on tokens.
type tokenAPI struct {
	keeper *access.Tokens // nil: the node has no tokens
	now    func() time.Time
}

// register registers the operations on tokens. A node without a keeper has none.
func (a *tokenAPI) register(all *operations) {
	register(all, operation{
		ID: "list-tokens", Tag: tagTokens, Method: "GET", Path: "/tokens", Does: "lists the tokens, newest first, also those that ended",
		Scope: access.Admin, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "create-token", Tag: tagTokens, Method: "POST", Path: "/tokens", Does: "makes a token",
		Says:  "It takes no Idempotency-Key: its secret is not kept, so that it cannot be answered again. The first token of a node has the scope admin and no prefix.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusCreated, Errors: []int{http.StatusConflict},
	}, withBody(a.create))
	register(all, operation{
		ID: "revoke-token", Tag: tagTokens, Method: "DELETE", Path: "/tokens/{id}", Does: "ends a token, by its id or its name",
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

// tokenListIn selects a page of the tokens.
type tokenListIn struct {
	Limit  int        `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"How many items the page has at most."`
	Cursor identifier `query:"cursor" doc:"Where the page before ended: its next. Leave it out for the first page."`
}

func (a *tokenAPI) list(ctx context.Context, in *tokenListIn) (Page[Token], error) {
	page := Page[Token]{Items: []Token{}}
	k, err := needTokens(a.keeper)
	if err != nil {
		return page, err
	}
	all, err := k.List(ctx)
	if err != nil {
		return page, err
	}
	if in.Cursor != "" { // the id of the last one; ids of later tokens are greater
		all = slices.DeleteFunc(all, func(t access.Token) bool { return t.ID >= string(in.Cursor) })
	}
	for _, t := range all[:min(in.Limit, len(all))] {
		page.Items = append(page.Items, newToken(t, a.now()))
	}
	if n := len(page.Items); n < len(all) {
		page.Next = page.Items[n-1].ID
	}
	return page, nil
}

// newTokenIn is a request that makes a token.
type newTokenIn struct {
	Once string `header:"Idempotency-Key" hidden:"true"`
	Body TokenRequest
}

func (a *tokenAPI) create(ctx context.Context, in *newTokenIn) (NewToken, error) {
	if in.Once != "" {
		return NewToken{}, refused("header.Idempotency-Key", "a token's secret is not kept, so it cannot be answered again; leave the key out")
	}
	k, err := needTokens(a.keeper)
	if err != nil {
		return NewToken{}, err
	}
	wish := access.TokenRequest{Name: in.Body.Name, Prefix: in.Body.Prefix, Bounds: in.Body.given()}
	for _, s := range in.Body.Scopes {
		wish.Scopes = append(wish.Scopes, access.Scope(strings.TrimSpace(s)))
	}
	if in.Body.Expires != "" {
		span, err := rules.ParseDuration(in.Body.Expires)
		if err != nil {
			return NewToken{}, refused("body.expires", "%v", err)
		}
		if span <= 0 {
			return NewToken{}, refused("body.expires", "%s is not over 0; give a span such as 90d, or leave it out for a token that never expires", in.Body.Expires)
		}
		wish.Expires = time.Duration(span)
	}
	if err := mayComeFirst(ctx, k, wish); err != nil {
		return NewToken{}, err
	}
	t, secret, err := k.Create(ctx, wish)
	if err != nil {
		return NewToken{}, err
	}
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
	return refused("body.scopes", "this would be the first token, and from then on nobody gets in without one; make one with the scope admin and no prefix before it")
}

func (a *tokenAPI) revoke(ctx context.Context, in *struct {
	ID identifier `path:"id" doc:"The token's id or name." example:"ci"`
},
) error {
	k, err := needTokens(a.keeper)
	if err != nil {
		return err
	}
	return k.Revoke(ctx, string(in.ID))
}
