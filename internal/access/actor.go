package access

import "context"

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
