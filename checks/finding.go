package checks

import (
	"context"
	"encoding/json"
	"fmt"
)

// Finding is what a source said about the entity of a check.
type Finding struct {
	Value json.RawMessage // an object, merged over the state; nil: there is no such entity
	Err   error           // it could not be found out; an *Outage where nothing can be at the moment
}

// Outage is the error of a source or a stream that can't be asked, whatever the key. It is
// said once, not once per job.
type Outage struct {
	Source string // such as "shop", or "stream/ORDERS"
	Err    error  // why, without secrets
}

func (o *Outage) Error() string { return fmt.Sprintf("%s can't be asked: %v", o.Source, o.Err) }

// Unwrap returns why.
func (o *Outage) Unwrap() error { return o.Err }

// Finder finds out, before the handler of a rule is asked, what a source knows about the
// entities of its checks. Implementations are safe for concurrent use.
type Finder interface {
	// Source names what is asked.
	Source() string
	// Enter takes a place in the line before the source; false: the line is full, and the
	// jobs wait in the database. Find gives the place back.
	Enter() bool
	// Find asks about the checks of one batch, all of the same version of a rule, in as few
	// round trips as it can. Finding i is of checks[i]. It takes up to timeout from when the
	// source begins to be asked, and returns soon after ctx is done.
	Find(ctx context.Context, checks []Check) []Finding
	// Reach reports why the source can't be reached, without asking it about anybody.
	Reach(ctx context.Context) error
}
