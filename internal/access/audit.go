package access

import (
	"context"
	"time"
)

// AuditEntry is a line of the audit. It is written in the transaction of what it tells, and
// never changed.
type AuditEntry struct {
	ID     int64     `json:"id"` // later entries have greater ones
	At     time.Time `json:"at"`
	Actor  Actor     `json:"actor"`
	Action string    `json:"action"` // such as rule.save, job.cancel, token.create
	Object string    `json:"object"` // such as rule/order-unshipped, job/<rule>/<key>, token/<name>
	Detail string    `json:"detail,omitzero"`
}

// AuditFilter narrows the audit. Zero values narrow nothing. Actor, Action and Object are whole,
// or what one begins with and a "*".
type AuditFilter struct {
	Actor  string // its name
	Action string
	Object string
	After  time.Time // inclusive
	Before time.Time // exclusive
	Cursor string    // where the last page ended; opaque
	Limit  int       // 1 to 500; 0: 50
}

// The names of actors that have no token. That of a bundle of rule files is "file:" and the
// bundle's; those of people are Person.String.
const (
	NodeItself = "deadman"
	Loopback   = "loopback" // anybody on a node that is open
)

// Actor is who does something.
type Actor struct {
	Name    string `json:"name"`              // the token's, a person's, or one of those above
	TokenID string `json:"token_id,omitzero"` // or Person.ID; empty: without a token
	Addr    string `json:"addr,omitzero"`     // where a request came from
}

type actorKey struct{}

// As returns a context in which a does what is done.
func As(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns who does what is done in a context: the node itself, if nobody else.
func ActorOf(ctx context.Context) Actor {
	if a, ok := ctx.Value(actorKey{}).(Actor); ok {
		return a
	}
	return Actor{Name: NodeItself}
}
