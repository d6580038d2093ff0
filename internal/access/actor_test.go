package access_test

import (
	"testing"

	"deadman/internal/access"
)

func TestNodeIsDefaultActor(t *testing.T) {
	if got := access.ActorOf(t.Context()); got != (access.Actor{Name: "deadman"}) {
		t.Errorf("an anonymous actor is %+v", got)
	}
	outer := access.As(t.Context(), access.Actor{Name: "ci", TokenID: "1", Addr: "10.0.0.7:1"})
	inner := access.As(outer, access.Actor{Name: "file:shop"})
	if got := access.ActorOf(outer); got != (access.Actor{Name: "ci", TokenID: "1", Addr: "10.0.0.7:1"}) {
		t.Errorf("outside: %+v", got)
	}
	if got := access.ActorOf(inner); got != (access.Actor{Name: "file:shop"}) {
		t.Errorf("inside: %+v", got)
	}
}
