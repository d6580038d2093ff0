package futurejobs

import "time"

// ListedOutage is an outage as people see it.
type ListedOutage struct {
	Outage
	ID       int64
	Rule     string
	ClosedAt time.Time // zero: it is not over
}
