package web

import (
	"fmt"
	"net/http"
	"testing"

	"deadman/access"
)

// The tokens of a prefix share their places, and all prefixes together leave some for everybody else.
func TestTenantsLeaveRoomToRead(t *testing.T) {
	reads := newReads()
	visitorNamed := func(name, prefix string) visitor {
		return visitor{token: access.Token{ID: "id-" + name, Name: name, Prefix: prefix}}
	}
	take := func(name, prefix string) int {
		if full := reads.take(visitorNamed(name, prefix).tenant()); full != nil {
			return full.Status
		}
		return http.StatusOK
	}
	want := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	for tenant := range 3 {
		prefix := fmt.Sprintf("t%d-", tenant)
		for i := range maxTokenReads {
			want("a place of a tenant", take(fmt.Sprint(prefix, i), prefix), http.StatusOK)
		}
		want("one more token of the tenant", take(prefix+"more", prefix), http.StatusTooManyRequests)
	}
	want("another tenant", take("t3", "t3-"), http.StatusServiceUnavailable)
	for range keptReads {
		want("somebody without a prefix", take("ann", ""), http.StatusOK)
	}
	want("a place beyond those of the node", take("bob", ""), http.StatusServiceUnavailable)
	reads.leave(visitorNamed("other", "t0-").tenant())
	want("a tenant, while others need what is left", take("t3", "t3-"), http.StatusServiceUnavailable)
	want("somebody without a prefix, once there is a place", take("bob", ""), http.StatusOK)
}
