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
)

// Until polls until ok returns true, and fails the test after five minutes with the description of the condition. The
// pause between two polls is as long as a poll takes: a slow query leaves half of the time to the work that it waits for.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		begun := time.Now()
		if ok() {
			return
		}
		select {
		case <-time.After(max(minPause, time.Since(begun))):
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
