package web

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Outage is a time during which a source or a remote handler did not answer for a rule's jobs, as the API returns it.
type Outage struct {
	ID           int64     `json:"id" doc:"ID of the outage."`
	Source       string    `json:"source" doc:"Source or handler that does not answer." example:"shop"`
	Rule         string    `json:"rule" doc:"Name of the affected rule." example:"order-unshipped"`
	OpenedAt     time.Time `json:"opened_at" doc:"Time of the first failed check."`
	LastSeenAt   time.Time `json:"last_seen_at" doc:"Time of the last failed check."`
	ClosedAt     time.Time `json:"closed_at,omitzero" doc:"End of the outage. Absent while it is ongoing."`
	FailedChecks int       `json:"failed_checks" doc:"Number of checks that failed because of the outage."`
	Reason       string    `json:"reason" doc:"Error of the first failed check, without secrets."`
}

func newOutage(o futurejobs.ListedOutage) Outage {
	return Outage{
		ID: o.ID, Source: o.Source, Rule: o.Rule, OpenedAt: o.OpenedAt, LastSeenAt: o.SeenAt, ClosedAt: o.ClosedAt, FailedChecks: o.Jobs, Reason: o.Reason,
	}
}

// outageListIn has the filters of the outages.
type outageListIn struct {
	Rule identifier `query:"rule" doc:"Filter by rule." example:"order-unshipped"`
	Open bool       `query:"open" doc:"Only ongoing outages."`
	Paging
}

// outageAPI has the operation on outages.
type outageAPI struct {
	lists OutageReader
}

func (a *outageAPI) register(all *operations) {
	register(all, operation{
		ID: "list-outages", Tag: tagNode, Method: "GET", Path: "/outages", Summary: "list outages of sources and handlers, newest first",
		Description: "Ended outages are listed for the retention of the history.",
		Scope:       access.Read, Reach: reachAll,
	}, withBody(func(ctx context.Context, in *outageListIn) (Page[Outage], error) {
		p, err := a.lists.ListedOutages(ctx, in.page(futurejobs.Filter{Rule: string(in.Rule), Open: in.Open}))
		if err != nil {
			return Page[Outage]{}, err
		}
		return pageOf(p, newOutage), nil
	}))
}
