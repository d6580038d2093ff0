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
	Name         string    `json:"name" doc:"Name of the source." example:"shop"`
	Kind         string    `json:"kind" enum:"postgres,sqlite,http,nats" doc:"Type of the source."`
	State        string    `json:"state" enum:"new,up,failing,down,probing" doc:"new: no query was sent yet. up: the last query succeeded. failing: the last query failed. down: repeated failures; no queries are sent for a while. probing: the next query tests whether the source has recovered."`
	FailingSince time.Time `json:"failing_since,omitzero" doc:"Time of the first failure since the last success."`
	Error        string    `json:"error,omitempty" doc:"Last error of the source, without secrets, kept after recovery."`
	ErrorAt      time.Time `json:"error_at,omitzero" doc:"Time of the last error."`
	Warning      string    `json:"warning,omitempty" doc:"Excessive permissions of the connection, such as a superuser, and the remedy."`
	Keys         int64     `json:"keys" doc:"Number of keys that were looked up since the node started."`
	Queries      int64     `json:"queries" doc:"Number of batched queries since the node started."`
	Failures     int64     `json:"failures" doc:"Number of failures of the source since the node started."`
	Queued       int       `json:"queued" doc:"Number of queries that wait for a free connection."`
	Running      int       `json:"running" doc:"Number of running queries."`
	Abandoned    int       `json:"abandoned" doc:"Number of queries that exceeded their deadline and have not returned."`
	P50          float64   `json:"p50_ms" doc:"Median duration of recent queries, in milliseconds."`
	P99          float64   `json:"p99_ms" doc:"99th percentile of the duration of recent queries, in milliseconds."`
}

func newSource(s lookup.State) Source {
	return Source{
		Name: s.Name, Kind: s.Kind, State: string(s.Health), FailingSince: s.FailingSince, Error: s.Error, ErrorAt: s.ErrorAt, Warning: s.Caution,
		Keys: s.QueriedKeys, Queries: s.RoundTrips, Failures: s.Failures, Queued: s.Waiting, Running: s.Running, Abandoned: s.Abandoned,
		P50: milliseconds(s.P50), P99: milliseconds(s.P99),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// SourceTestResult is the result of testing a source.
type SourceTestResult struct {
	Source    string `json:"source" doc:"Name of the source."`
	Reachable bool   `json:"reachable" doc:"Whether the node can connect to the source."`
	Reason    string `json:"reason,omitempty" doc:"Error of the connection, without secrets."`
}

// sourceAPI has the operations on sources.
type sourceAPI struct {
	sources *lookup.Set
	keeper  *access.Tokens // nil: the node keeps no audit log
}

func (a *sourceAPI) register(all *operations) {
	register(all, operation{
		ID: "list-sources", Tag: tagNode, Method: "GET", Path: "/sources", Summary: "list lookup sources and their state on the node that answers",
		Scope: access.Read, Reach: reachAll,
	}, withBody(a.list))
	register(all, operation{
		ID: "get-source", Tag: tagNode, Method: "GET", Path: "/sources/{name}", Summary: "get the state of a source on the node that answers",
		Scope: access.Read, Reach: reachAll, Errors: []int{http.StatusNotFound},
	}, withBody(a.get))
	register(all, operation{
		ID: "test-source", Tag: tagNode, Method: "POST", Path: "/sources/{name}/test", Summary: "test the connection of the node to a source",
		Description: "Tests the connection without a query, even if the source is down. The test is recorded in the audit log.",
		Scope:       access.Admin, Reach: reachAll, Status: http.StatusOK, Errors: []int{http.StatusNotFound},
	}, withBody(a.test))
}

// sourceIn names a source.
type sourceIn struct {
	Name identifier `path:"name" doc:"Name of the source." example:"shop"`
}

func (a *sourceAPI) list(_ context.Context, in *wholeListIn) (Page[Source], error) {
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
	tried := SourceTestResult{Source: source.Name, Reachable: true}
	if err := source.Try(ctx); err != nil {
		tried.Reachable, tried.Reason = false, err.Error()
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
		return nil, problem(http.StatusNotFound, "this node has no sources; start it with --sources and a sources file")
	}
	return nil, fmt.Errorf("source %s: %w; list the sources with deadman source list", in.Name, futurejobs.ErrNotFound)
}
