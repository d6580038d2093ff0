package checks

import (
	"context"
	"encoding/json"
	"fmt"
)

// Finding is the result of a lookup for the entity of a check.
type Finding struct {
	Value json.RawMessage // an object, merged over the state; nil: no such entity
	Err   error           // the lookup failed; an *Outage if the source does not answer at all at the moment
}

// Outage is the error of a source, handler or stream that can't be queried, regardless of the key. It raises one
// alert, not one per job.
type Outage struct {
	Source string // such as "shop", or "stream/ORDERS"
	Err    error  // the cause, without secrets
}

func (o *Outage) Error() string { return fmt.Sprintf("%s is unavailable: %v", o.Source, o.Err) }

// Unwrap returns the cause.
func (o *Outage) Unwrap() error { return o.Err }

// Finder performs the lookups of a rule before its handler decides. Implementations are safe for concurrent use.
type Finder interface {
	// Source returns the name of the source.
	Source() string
	// Enter reserves a place in the source's queue. It returns false if the queue is full; the jobs then stay in the
	// database. Find releases the place.
	Enter() bool
	// Find looks up the checks of one batch, all of the same version of a rule, in as few round trips as possible.
	// Finding i belongs to checks[i]. It takes up to timeout from the start of the query, and returns soon after ctx
	// is done.
	Find(ctx context.Context, checks []Check) []Finding
	// Reach returns an error if the source can't be reached, without a query for any entity.
	Reach(ctx context.Context) error
}
