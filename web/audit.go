package web

import (
	"context"
	"time"

	"deadman/internal/access"
)

// Entry is an entry of the audit log, as the API returns it.
type Entry struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor" doc:"The token's name; proxy: or oidc: and a name for a person; loopback, file: and a bundle, or deadman." example:"ci"`
	TokenID string    `json:"token_id,omitempty" doc:"Of the token, or by which a person is known for good."`
	Addr    string    `json:"addr,omitempty" doc:"Where the request came from."`
	Action  string    `json:"action" example:"rule.save"`
	Object  string    `json:"object" example:"rule/order-unshipped"`
	Detail  string    `json:"detail,omitempty"`
}

func newEntry(e access.AuditEntry) Entry {
	return Entry{
		ID: e.ID, At: e.At, Actor: e.Actor.Name, TokenID: e.Actor.TokenID, Addr: e.Actor.Addr,
		Action: e.Action, Object: e.Object, Detail: e.Detail,
	}
}

// auditIn has the filters of the audit log.
type auditIn struct {
	Actor  identifier  `query:"actor" doc:"Who did it; or what that begins with, and a *." example:"ci"`
	Action identifier  `query:"action" doc:"What was done; or what that begins with, and a *." example:"rule.*"`
	Object auditObject `query:"object" doc:"To what; or what that begins with, and a *." example:"rule/order-unshipped"`
	After  time.Time   `query:"after" doc:"Then or later." example:"2026-01-31T15:04:05Z"`
	Before time.Time   `query:"before" doc:"Before then." example:"2026-01-31T15:04:05Z"`
	Paging
}

// noteTest audits the test of a channel or a source, with its result.
func noteTest(ctx context.Context, keeper *access.Tokens, action access.Action, object, result string) error {
	if keeper == nil {
		return nil // the node keeps no audit log
	}
	return keeper.Note(ctx, action, object, result)
}

// auditAPI has the operation on the audit log.
type auditAPI struct {
	keeper *access.Tokens // nil: the node has no tokens
}

func (a *auditAPI) register(all *operations) {
	register(all, operation{
		ID: "list-audit", Tag: tagTokens, Method: "GET", Path: "/audit", Does: "lists who did what, newest first",
		Says:  "Every change of rules, jobs, alerts, mutes, dead letters, pings and tokens is here, in the transaction in which it was made, and every test of a channel or a source.",
		Scope: access.Admin, Reach: reachAll,
	}, withBody(a.list))
}

func (a *auditAPI) list(ctx context.Context, in *auditIn) (Page[Entry], error) {
	page := Page[Entry]{Items: []Entry{}}
	k, err := needTokens(a.keeper)
	if err != nil {
		return page, err
	}
	entries, next, err := k.Audit(ctx, access.AuditFilter{
		Actor: string(in.Actor), Action: string(in.Action), Object: string(in.Object),
		After: in.After.UTC(), Before: in.Before.UTC(), Cursor: in.Cursor, Limit: in.Limit,
	})
	for _, e := range entries {
		page.Items = append(page.Items, newEntry(e))
	}
	page.Next = next
	return page, err
}
