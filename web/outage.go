package web

import (
	"context"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Outage is a time during which a source or a remote handler did not answer for a rule's jobs, as the API returns it.
type Outage struct {
	ID       int64     `json:"id"`
	Source   string    `json:"source" doc:"What could not be asked." example:"shop"`
	Rule     string    `json:"rule" example:"order-unshipped"`
	OpenedAt time.Time `json:"opened_at"`
	SeenAt   time.Time `json:"seen_at" doc:"When a job was last met by it."`
	ClosedAt time.Time `json:"closed_at,omitzero" doc:"Absent: it is not over."`
	Jobs     int       `json:"jobs" doc:"Looks that could not find out because of it."`
	Reason   string    `json:"reason" doc:"Of the first of them; without secrets."`
}

func newOutage(o futurejobs.ListedOutage) Outage {
	return Outage{
		ID: o.ID, Source: o.Source, Rule: o.Rule, OpenedAt: o.OpenedAt, SeenAt: o.SeenAt, ClosedAt: o.ClosedAt, Jobs: o.Jobs, Reason: o.Reason,
	}
}

// outageListIn has the filters of the outages.
type outageListIn struct {
	Rule identifier `query:"rule" doc:"Of this rule." example:"order-unshipped"`
	Open bool       `query:"open" doc:"Those that are not over."`
	Paging
}

// outageAPI has the operation on outages.
type outageAPI struct {
	lists OutageReader
}

func (a *outageAPI) register(all *operations) {
	register(all, operation{
		ID: "list-outages", Tag: tagNode, Method: "GET", Path: "/outages", Does: "lists the outages of what rules ask, newest first",
		Says:  "One that is over is listed for as long as history is kept.",
		Scope: access.Read, Reach: reachAll,
	}, withBody(func(ctx context.Context, in *outageListIn) (Page[Outage], error) {
		p, err := a.lists.ListedOutages(ctx, in.page(futurejobs.Filter{Rule: string(in.Rule), Open: in.Open}))
		if err != nil {
			return Page[Outage]{}, err
		}
		return pageOf(p, newOutage), nil
	}))
}
