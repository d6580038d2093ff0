package web

import (
	"context"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
	"deadman/rules/document"
)

// EndedJob is a job in the history, as the API returns it.
type EndedJob struct {
	Job
	Outcome checks.Outcome `json:"outcome" example:"resolved"`
	Reason  string         `json:"reason,omitempty" doc:"Further explanation of the outcome."`
	EndedAt time.Time      `json:"ended_at" doc:"Time at which the job ended."`
}

// IsLate reports whether the job was resolved after an alert.
func (e EndedJob) IsLate() bool {
	kind, counted := futurejobs.KindOf(e.Outcome, e.Step)
	return counted && kind == futurejobs.Late
}

// describeOutcomes adds the list of outcomes to the schema of ended jobs.
func describeOutcomes(schemas huma.Registry) {
	var words []string
	for _, o := range checks.Outcomes() {
		words = append(words, string(o))
	}
	last := len(words) - 1
	words[0] += " (or the value of as in the resolve)"
	schemas.Map()["EndedJob"].Properties["outcome"].Description =
		"Reason why the job ended: " + strings.Join(words[:last], ", ") + " or " + words[last] + "."
}

func newEnded(e futurejobs.EndedJob) EndedJob {
	return EndedJob{Job: newJob(e.ListedJob), Outcome: e.Outcome, Reason: e.Reason, EndedAt: e.EndedAt}
}

// wholeEnded returns an ended job with its trail, for the page of its entity.
func wholeEnded(e futurejobs.EndedJob) EndedJob {
	out := newEnded(e)
	out.Trail = trailOf(e.Trail)
	for i, entry := range out.Trail { // the end of an unlimited hold is years away, as if there were none
		if entry.Next.Sub(entry.At) > time.Duration(document.MaxDuration)-24*time.Hour {
			out.Trail[i].Next, out.Trail[i].NoNextCheck = time.Time{}, true
		}
	}
	return out
}

// historyIn has the filters of the history.
type historyIn struct {
	ListFilter
	Outcome     identifier `query:"outcome" doc:"Filter by outcome." example:"resolved"`
	EndedAfter  time.Time  `query:"ended_after" doc:"Only jobs that ended at or after this time." example:"2026-01-31T15:04:05Z"`
	EndedBefore time.Time  `query:"ended_before" doc:"Only jobs that ended before this time." example:"2026-01-31T15:04:05Z"`
	Paging
}

// historyAPI has the operation on ended jobs.
type historyAPI struct {
	lists HistoryReader
}

func (a *historyAPI) register(all *operations) {
	register(all, operation{
		ID: "list-history", Tag: tagJobs, Method: "GET", Path: "/history", Summary: "list ended jobs, newest first",
		Scope: access.Read, Reach: reachFiltered,
	}, withBody(func(ctx context.Context, in *historyIn) (Page[EndedJob], error) {
		f := in.page(in.filter())
		f.Outcome, f.After, f.Before = checks.Outcome(in.Outcome), in.EndedAfter.UTC(), in.EndedBefore.UTC()
		return a.list(ctx, f)
	}))
}

func (a *historyAPI) list(ctx context.Context, f futurejobs.Filter) (Page[EndedJob], error) {
	p, err := a.lists.History(ctx, filterVisible(ctx, f))
	if err != nil {
		return Page[EndedJob]{}, err
	}
	return pageOf(p, newEnded), nil
}
