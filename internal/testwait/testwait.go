// Package testwait lets tests wait for what another goroutine, process or server does.
package testwait

import (
	"context"
	"testing"
	"time"
)

const (
	patience = 5 * time.Minute // for busy machines
	minPause = 5 * time.Millisecond
	maxPause = 200 * time.Millisecond
)

// Until polls until ok returns true, and fails the test after five minutes with the description of the condition. The
// pause between two polls is as long as a poll takes, and an eighth of the wait so far up to maxPause: polls leave the
// processors to the work that they wait for.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for start := time.Now(); ; {
		begun := time.Now()
		if ok() {
			return
		}
		select {
		case <-time.After(max(minPause, time.Since(begun), min(time.Since(start)/8, maxPause))):
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
