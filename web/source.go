package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Source is a source as the API returns it, without its address and with the state on the answering node.
type Source struct {
	Name         string    `json:"name" example:"shop"`
	Kind         string    `json:"kind" enum:"postgres,sqlite,http,nats"`
	State        string    `json:"state" enum:"new,up,failing,down,trying" doc:"new: nothing was asked yet. failing: the last that was asked failed. down: it failed again and again and is left alone. trying: what is asked next tries whether it is back."`
	FailingSince time.Time `json:"failing_since,omitzero"`
	Error        string    `json:"error,omitempty" doc:"Why it could not be asked last, also where it works again; without secrets."`
	ErrorAt      time.Time `json:"error_at,omitzero" doc:"When that was."`
	Warning      string    `json:"warning,omitempty" doc:"What it may do beyond answering questions, as where its database user is a superuser; and what to do about it."`
	Asked        int64     `json:"asked" doc:"Keys that it was asked about, since the node started."`
	RoundTrips   int64     `json:"round_trips" doc:"Batches that it was asked about, since then."`
	Failures     int64     `json:"failures" doc:"How often it failed as a whole, since then."`
	Waiting      int       `json:"waiting" doc:"Batches that wait for their turn."`
	Running      int       `json:"running" doc:"Batches that it is being asked about."`
	Abandoned    int       `json:"abandoned" doc:"Questions that ignored their deadline and have not returned."`
	P50          float64   `json:"p50_ms" doc:"Of the last round trips, half took up to this, in milliseconds."`
	P99          float64   `json:"p99_ms" doc:"Of the last round trips, 99 in 100 took up to this, in milliseconds."`
}

func newSource(s lookup.State) Source {
	return Source{
		Name: s.Name, Kind: s.Kind, State: string(s.Health), FailingSince: s.FailingSince, Error: s.Error, ErrorAt: s.ErrorAt, Warning: s.Caution,
		Asked: s.Asked, RoundTrips: s.RoundTrips, Failures: s.Failures, Waiting: s.Waiting, Running: s.Running, Abandoned: s.Abandoned,
		P50: milliseconds(s.P50), P99: milliseconds(s.P99),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// SourceTestResult is the result of testing a source.
type SourceTestResult struct {
	Source  string `json:"source"`
	Reached bool   `json:"reached"`
	Reason  string `json:"reason,omitempty" doc:"Why it can't be reached; without secrets."`
}

// sourceAPI has the operations on sources.
type sourceAPI struct {
	sources *lookup.Set
	keeper  *access.Tokens // nil: the node keeps no audit log
}

func (a *sourceAPI) register(all *operations) {
	register(all, operation{
		ID: "list-sources", Tag: tagNode, Method: "GET", Path: "/sources", Does: "lists the sources that rules look up in, and how they do on the node that answers",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "get-source", Tag: tagNode, Method: "GET", Path: "/sources/{name}", Does: "says how a source does on the node that answers",
		Scope: access.Read, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, withBody(a.get))
	register(all, operation{
		ID: "test-source", Tag: tagNode, Method: "POST", Path: "/sources/{name}/test", Does: "tries whether a source can be reached from the node that answers",
		Says:  "It is asked about nobody, and also where it is left alone because it failed. The test is audited.",
		Scope: access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(a.test))
}

// sourceIn names a source.
type sourceIn struct {
	Name identifier `path:"name" doc:"The source's name." example:"shop"`
}

func (a *sourceAPI) list(_ context.Context, in *namedListIn) (Page[Source], error) {
	all := a.sources.States()
	sources := make([]Source, len(all))
	for i, s := range all {
		sources[i] = newSource(s)
	}
	return pageOfNamed(in, sources, func(s Source) string { return s.Name }), nil
}

func (a *sourceAPI) get(_ context.Context, in *sourceIn) (Source, error) {
	source, err := a.sourceOf(in)
	if err != nil {
		return Source{}, err
	}
	return newSource(source.State()), nil
}

func (a *sourceAPI) test(ctx context.Context, in *sourceIn) (SourceTestResult, error) {
	source, err := a.sourceOf(in)
	if err != nil {
		return SourceTestResult{}, err
	}
	tried := SourceTestResult{Source: source.Name, Reached: true}
	if err := source.Try(ctx); err != nil {
		tried.Reached, tried.Reason = false, err.Error()
	}
	err = noteTest(ctx, a.keeper, access.SourceTest, "source/"+source.Name, cmp.Or(tried.Reason, "reached"))
	return tried, err
}

func (a *sourceAPI) sourceOf(in *sourceIn) (*lookup.Source, error) {
	source, ok := a.sources.Get(string(in.Name))
	switch {
	case ok:
		return source, nil
	case len(a.sources.Names()) == 0:
		return nil, problem(http.StatusNotFound, "this node has no sources; start it with --sources and a file of sources")
	}
	return nil, fmt.Errorf("source %s: %w; deadman source list shows those that there are", in.Name, futurejobs.ErrNotFound)
}
