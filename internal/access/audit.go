package access

import (
	"context"
	"time"
)

// AuditEntry is an entry of the audit log. It is written in the transaction of its action, and never changed.
type AuditEntry struct {
	ID     int64     `json:"id"` // ascending
	At     time.Time `json:"at"`
	Actor  Actor     `json:"actor"`
	Action string    `json:"action"` // such as rule.save, job.cancel, token.create
	Object string    `json:"object"` // such as rule/order-unshipped, job/<rule>/<key>, token/<name>
	Detail string    `json:"detail,omitzero"`
}

// AuditFilter filters the audit log. Zero fields match all entries. Actor, Action and Object are complete values, or
// prefixes followed by "*".
type AuditFilter struct {
	Actor  string // the actor's name
	Action string
	Object string
	After  time.Time // inclusive
	Before time.Time // exclusive
	Cursor string    // the next cursor of the previous page; opaque
	Limit  int       // 1 to 500; 0: 50
}

// The names of actors without a token. A bundle of rule files is "file:" and its name; a person is Person.String.
const (
	NodeItself = "deadman"
	Loopback   = "loopback" // any client of an open node
)

// Actor identifies the author of an action.
type Actor struct {
	Name    string `json:"name"`              // of the token or person, or one of the constants
	TokenID string `json:"token_id,omitzero"` // or Person.ID; empty: no token
	Addr    string `json:"addr,omitzero"`     // remote address of the request
	Origin  string `json:"-"`                 // node and file of a rule that a node reads from its folder
}

type actorKey struct{}

// As returns a context with the actor of its actions.
func As(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of a context; by default the node itself.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Name: NodeItself}
}
