package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"deadman/internal/access"
)

// Session is a browser session, as the API returns it.
type Session struct {
	ID         string    `json:"id" doc:"ID of the session."`
	Token      string    `json:"token,omitempty" doc:"Name of the token that was used to log in. Absent for users." example:"ada"`
	User       string    `json:"user,omitempty" doc:"User name, from the login provider. Absent for tokens." example:"oidc:ann@example.org"`
	CreatedAt  time.Time `json:"created_at" doc:"Time of the login."`
	LastUsedAt time.Time `json:"last_used_at" doc:"Time of the last use, to the minute."`
	EndsAt     time.Time `json:"ends_at" doc:"Expiry of the session. Token sessions end 12 hours after the last use, 30 days after the login or with the token, whichever is first. User sessions end 12 hours after the login."`
	Addr       string    `json:"addr,omitempty" doc:"IP address of the login." example:"192.0.2.7"`
	UserAgent  string    `json:"user_agent,omitempty" doc:"User-Agent header of the browser, shortened."`
	Current    bool      `json:"current,omitempty" doc:"Whether this request uses the session."`
}

func newSession(s access.Session, caller principal) Session {
	out := Session{
		ID: s.ID, Token: s.TokenName, CreatedAt: s.CreatedAt, LastUsedAt: s.LastUsedAt, EndsAt: s.EndsAt(),
		Addr: s.Addr, UserAgent: s.UserAgent, Current: s.ID == caller.session.ID,
	}
	if s.Person != nil {
		out.User = s.Person.String()
	}
	return out
}

// Who returns the session's holder: the name of the token, or the person.
func (s Session) Who() string { return cmp.Or(s.User, s.Token) }

// sessionAPI has the operations on sessions.
type sessionAPI struct {
	keeper *access.Tokens // nil: the node has no tokens
}

func (a *sessionAPI) register(all *operations) {
	register(all, operation{
		ID: "list-sessions", Tag: tagTokens, Method: "GET", Path: "/sessions", Summary: "list browser sessions, newest first",
		Description: "With the scope admin and no prefix, all sessions are returned; otherwise only those of the same token or user.",
		Scope:       access.Read, Reach: reachPublic,
	}, withBody(a.list))
	register(all, operation{
		ID: "revoke-session", Tag: tagTokens, Method: "DELETE", Path: "/sessions/{id}", Summary: "revoke a session",
		Description: "With the scope admin and no prefix, any session can be revoked; otherwise only those of the same token or user.",
		Scope:       access.Read, Reach: reachPublic, Errors: []int{http.StatusNotFound},
	}, noContent(a.revoke))
}

// sessionsOf returns the live sessions that the visitor may list and end.
func (a *sessionAPI) sessionsOf(ctx context.Context) ([]access.Session, error) {
	k, err := needTokens(a.keeper)
	if err != nil {
		return nil, err
	}
	all, err := k.Sessions(ctx)
	v := principalOf(ctx)
	if v.open || v.token.May(access.Admin, "") {
		return all, err
	}
	return slices.DeleteFunc(all, func(s access.Session) bool {
		_, holder := s.Holder()
		return holder != v.token.ID
	}), err
}

func (a *sessionAPI) list(ctx context.Context, in *wholeListIn) (Page[Session], error) {
	all, err := a.sessionsOf(ctx)
	if err != nil {
		return Page[Session]{}, err
	}
	if in.Cursor != "" { // the id of the last one; ids of later sessions are greater
		all = slices.DeleteFunc(all, func(s access.Session) bool { return s.ID >= string(in.Cursor) })
	}
	show := func(s access.Session) Session { return newSession(s, principalOf(ctx)) }
	return pageFrom(all, in.Limit, show, func(s access.Session) string { return s.ID }), nil
}

func (a *sessionAPI) revoke(ctx context.Context, in *struct {
	ID identifier `path:"id" doc:"Session ID."`
},
) error {
	theirs, err := a.sessionsOf(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(theirs, func(s access.Session) bool { return s.ID == string(in.ID) }) {
		return access.ErrNoSession
	}
	return a.keeper.EndSession(ctx, string(in.ID))
}
