package web

import (
	"context"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// Ended is a job in history as it goes out.
type Ended struct {
	Job
	Outcome checks.Outcome `json:"outcome"`
	Reason  string         `json:"reason,omitempty"`
	EndedAt time.Time      `json:"ended_at"`
}

func newEnded(e futurejobs.Ended) Ended {
	return Ended{Job: newJob(e.Listed), Outcome: e.Outcome, Reason: e.Reason, EndedAt: e.EndedAt}
}

func (a *api) history(ctx context.Context, f futurejobs.Filter) (Page[Ended], error) {
	p, err := a.Lists.History(ctx, f)
	if err != nil {
		return Page[Ended]{}, err
	}
	return pageOf(p, newEnded), nil
}
