package futurejobs

import (
	"context"
	"runtime/debug"
	"time"

	"deadman/checks"
)

// Size of a lookup batch of one version, and how long its first job waits for others while more is read.
const (
	maxLookupBatch = 2000
	lookupLinger   = 100 * time.Millisecond
)

// lookupBatch is a batch of jobs of one version for a lookup. It has a place in the source's queue.
type lookupBatch struct {
	jobs  []*task
	bytes int // of the bodies
	begun time.Time
}

// lookUp does a lookup. A panic becomes an error of these checks alone.
func lookUp(ctx context.Context, f checks.Finder, requests []checks.Check) (found []checks.Finding) {
	defer func() {
		if p := recover(); p != nil {
			found = make([]checks.Finding, len(requests))
			for i := range found {
				found[i].Err = panicError{p, debug.Stack()}
			}
		}
	}()
	return f.Find(ctx, requests)
}
