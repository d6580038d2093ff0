package web

import (
	"context"
	"net/http"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// AlertRepublisher publishes alerts again. The store implements it. A filter has a time, After, and may have a rule; a
// rule that never existed is futurejobs.ErrNotFound. Implementations are safe for concurrent use.
type AlertRepublisher interface {
	// Republish queues published alerts again, in order and before any newer alert of their jobs, and returns their
	// number.
	Republish(ctx context.Context, f futurejobs.Filter) (int64, error)
	// Republishable counts the alerts that Republish would publish.
	Republishable(ctx context.Context, f futurejobs.Filter) (int64, error)
}

// RepublishRequest selects the alerts to republish.
type RepublishRequest struct {
	Since  time.Time `json:"since" doc:"Republish alerts raised at or after this time." example:"2026-01-31T15:04:05Z"`
	Rule   string    `json:"rule,omitempty" maxLength:"63" doc:"Republish alerts of this rule only." example:"order-unshipped"`
	DryRun bool      `json:"dry_run,omitempty" doc:"Count the alerts without publishing them."`
}

// RepublishResult is the number of alerts that were queued.
type RepublishResult struct {
	Alerts int64 `json:"alerts" doc:"Number of alerts that were queued, or with dry_run would be. Nodes publish them afterwards; those that the stream still contains are in the number, and are not duplicated."`
}

// republishAPI has the operation that publishes alerts again.
type republishAPI struct {
	outbox AlertRepublisher
}

func (a *republishAPI) register(all *operations) {
	register(all, operation{
		ID: "republish-alerts", Tag: tagAlerts, Method: "POST", Path: "/alerts/republish", Summary: "republish alerts after the loss of their stream",
		Description: "Queues the alerts, and returns before they are published. Alerts of a job are published in the order in which they were raised, and before newer alerts. Alerts that the stream still " +
			"contains are not duplicated. Alerts that were purged from the stream are published again.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(a.republish))
}

func (a *republishAPI) republish(ctx context.Context, in *struct{ Body RepublishRequest }) (out RepublishResult, err error) {
	if in.Body.Since.IsZero() {
		return out, refused("body.since", "it is not a time; write one, such as 2026-01-31T15:04:05Z")
	}
	f := futurejobs.Filter{Rule: in.Body.Rule, After: in.Body.Since.UTC()}
	if in.Body.DryRun {
		out.Alerts, err = a.outbox.Republishable(ctx, f)
		return out, err
	}
	out.Alerts, err = a.outbox.Republish(ctx, f)
	return out, err
}
