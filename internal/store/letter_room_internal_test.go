package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

// TestLetterRoom checks that the capacity for bodies is by rule, by tenant and in total, until the next minute, and
// that the passed letters stay unchanged.
func TestLetterRoom(t *testing.T) {
	const mib = 1 << 20
	var r letterRoom
	body := make([]byte, mib)
	write := func(rule, tenant string, n int) (whole int) {
		letters := make([]futurejobs.DeadLetter, n)
		for i := range letters {
			letters[i] = futurejobs.DeadLetter{Rule: rule, Event: futurejobs.Event{Data: body}}
		}
		for i, l := range r.trim(letters, func(string) string { return tenant }) {
			switch {
			case len(letters[i].Event.Data) != mib:
				t.Fatal("the letter of the caller was changed")
			case l.Event.Data != nil:
				whole++
			case l.Size != mib:
				t.Fatalf("a letter without a body has a size of %d", l.Size)
			}
		}
		return whole
	}
	got := map[string]int{"a rule": write("loud", "", 100)}
	for i := range 10 {
		got["a tenant"] += write(fmt.Sprintf("acme-%d", i), "acme-", 30)
	}
	for i := range 20 {
		got["all"] += write(fmt.Sprintf("other-%d", i), "", 40)
	}
	got["nothing left"] = write("late", "", 1)
	large := futurejobs.DeadLetter{Rule: "late", Event: futurejobs.Event{Header: map[string][]string{"ce-x": {string(body)}}}}
	if l := r.trim([]futurejobs.DeadLetter{large}, func(string) string { return "" })[0]; l.Event.Header != nil || l.Size == 0 {
		t.Error("headers are written without room, or the letter seems to be whole")
	}
	r.until = time.Now().Add(-time.Second)
	got["a minute later"] = write("loud", "", 1)
	if diff := cmp.Diff(map[string]int{"a rule": 64, "a tenant": 128, "all": 512 - 64 - 128, "nothing left": 0, "a minute later": 1}, got); diff != "" {
		t.Error(diff)
	}
}
