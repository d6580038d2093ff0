package web

import (
	"context"
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Ended is a job in the history, as the API returns it.
type Ended struct {
	Job
	Outcome checks.Outcome `json:"outcome" doc:"Why it ended: resolved (or the as of the resolve), cleared, exhausted, cancelled, restarted, expired, rule_deleted, undetermined, guard_timeout, guard_max_checks, guard_horizon or guard_past." example:"resolved"`
	Reason  string         `json:"reason,omitempty" doc:"What a person should know beside the outcome."`
	EndedAt time.Time      `json:"ended_at"`
}

func newEnded(e futurejobs.EndedJob) Ended {
	return Ended{Job: newJob(e.ListedJob), Outcome: e.Outcome, Reason: e.Reason, EndedAt: e.EndedAt}
}

// wholeEnded returns an ended job with its trail, for the page of its entity.
func wholeEnded(e futurejobs.EndedJob) Ended {
	out := newEnded(e)
	out.Trail = trailOf(e.Trail)
	return out
}

// historyIn has the filters of the history.
type historyIn struct {
	ListFilter
	Outcome     identifier `query:"outcome" doc:"That ended so." example:"resolved"`
	EndedAfter  time.Time  `query:"ended_after" doc:"Then or later." example:"2026-01-31T15:04:05Z"`
	EndedBefore time.Time  `query:"ended_before" doc:"Before then." example:"2026-01-31T15:04:05Z"`
	Paging
}

// historyAPI has the operation on ended jobs.
type historyAPI struct {
	lists HistoryReader
}

func (a *historyAPI) register(all *operations) {
	register(all, operation{
		ID: "list-history", Tag: tagJobs, Method: "GET", Path: "/history", Does: "lists ended jobs, newest first",
		Scope: access.Read, Reach: reachFiltered,
	}, withBody(func(ctx context.Context, in *historyIn) (Page[Ended], error) {
		f := in.page(in.filter())
		f.Outcome, f.After, f.Before = checks.Outcome(in.Outcome), in.EndedAfter.UTC(), in.EndedBefore.UTC()
		return a.list(ctx, f)
	}))
}

func (a *historyAPI) list(ctx context.Context, f futurejobs.Filter) (Page[Ended], error) {
	p, err := a.lists.History(ctx, filterVisible(ctx, f))
	if err != nil {
		return Page[Ended]{}, err
	}
	return pageOf(p, newEnded), nil
}
