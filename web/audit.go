package web

import (
	"context"
	"time"

	"deadman/internal/access"
)

// AuditEntry is an entry of the audit log, as the API returns it.
type AuditEntry struct {
	ID      int64     `json:"id" doc:"ID of the entry; increases with time."`
	At      time.Time `json:"at" doc:"Time of the action."`
	Actor   string    `json:"actor" doc:"Name of the token. For users, proxy: or oidc: and the user name. Otherwise loopback, file: and a bundle, or deadman." example:"ci"`
	TokenID string    `json:"token_id,omitempty" doc:"ID of the token, or the permanent ID of the user."`
	Addr    string    `json:"addr,omitempty" doc:"IP address of the client."`
	Action  string    `json:"action" doc:"Action, as noun and verb." example:"rule.save"`
	Object  string    `json:"object" doc:"Object of the action, as type and name." example:"rule/order-unshipped"`
	Detail  string    `json:"detail,omitempty" doc:"Details of the action."`
}

func newEntry(e access.AuditEntry) AuditEntry {
	return AuditEntry{
		ID: e.ID, At: e.At, Actor: e.Actor.Name, TokenID: e.Actor.TokenID, Addr: e.Actor.Addr,
		Action: e.Action, Object: e.Object, Detail: e.Detail,
	}
}

// auditIn has the filters of the audit log.
type auditIn struct {
	Actor  identifier  `query:"actor" doc:"Filter by actor. A * at the end matches a prefix." example:"ci"`
	Action identifier  `query:"action" doc:"Filter by action. A * at the end matches a prefix." example:"rule.*"`
	Object auditObject `query:"object" doc:"Filter by object. A * at the end matches a prefix." example:"rule/order-unshipped"`
	After  time.Time   `query:"after" doc:"Only entries recorded at or after this time." example:"2026-01-31T15:04:05Z"`
	Before time.Time   `query:"before" doc:"Only entries recorded before this time." example:"2026-01-31T15:04:05Z"`
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
		ID: "list-audit", Tag: tagTokens, Method: "GET", Path: "/audit", Summary: "list the audit log, newest first",
		Description: "Changes of rules, jobs, alerts, mutes, dead letters, ping URLs and tokens are recorded in the same transaction as the change. " +
			"Tests of channels and sources are recorded, too.",
		Scope: access.Admin, Reach: reachAll,
	}, withBody(a.list))
}

func (a *auditAPI) list(ctx context.Context, in *auditIn) (Page[AuditEntry], error) {
	page := Page[AuditEntry]{Items: []AuditEntry{}}
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
