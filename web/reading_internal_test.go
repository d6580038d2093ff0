package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"deadman/internal/access"
)

// TestTenantsLeaveReadCapacity checks that the tokens of a prefix share their capacity, that all prefixes together leave
// some for others, and that each of those leaves some, too.
func TestTenantsLeaveReadCapacity(t *testing.T) {
	reads := newReadSemaphore()
	visitorNamed := func(name, prefix string) principal {
		return principal{token: access.Token{ID: "id-" + name, Name: name, Prefix: prefix}}
	}
	take := func(name, prefix string) int {
		var full *Problem
		if err := reads.acquireWithin(t.Context(), visitorNamed(name, prefix).tenant(), answerRoom, time.Millisecond); errors.As(err, &full) {
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
	for tenant, limit := range []int{8, 8, 4, 2, 1, 1} { // from the third on, each gets as much as it leaves to others
		prefix := fmt.Sprintf("t%d-", tenant)
		for i := range limit {
			want("an answer to a tenant", take(fmt.Sprint(prefix, i), prefix), http.StatusOK)
		}
		if tenant < 5 {
			want("one more token of the tenant", take(prefix+"more", prefix), http.StatusTooManyRequests)
		}
	}
	want("another tenant", take("t6", "t6-"), http.StatusServiceUnavailable)
	for i, name := range []string{"ann", "bob", "cas", "dan"} { // each gets as much as it leaves to others
		for range []int{4, 2, 1, 1}[i] {
			want(name+", without a prefix", take(name, ""), http.StatusOK)
		}
	}
	want("more than is left to others", take("ann", ""), http.StatusTooManyRequests)
	want("an answer beyond those of the node", take("eve", ""), http.StatusServiceUnavailable)
	if full := reads.full(visitorNamed("eve", "").tenant(), true); !strings.Contains(full.Detail, "256 MiB") {
		t.Errorf("the answer does not name the error: %s", full.Detail)
	}
	reads.releaseN(visitorNamed("other", "t0-").tenant(), answerRoom)
	want("a tenant, while others need what is left", take("t6", "t6-"), http.StatusServiceUnavailable)
	want("a token without a prefix, once there is room", take("eve", ""), http.StatusOK)
}
