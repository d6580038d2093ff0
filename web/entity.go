package web

import (
	"context"
	"net/http"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Entity is everything about an entity's key: the first page of each list.
type Entity struct {
	Entity  string      `json:"entity" example:"order"`
	Key     string      `json:"key" example:"1234"`
	Jobs    Page[Job]   `json:"jobs" doc:"What waits for it, next due first; GET /jobs?entity=&key= has the pages that follow."`
	History Page[Ended] `json:"history" doc:"What waited for it, newest first; GET /history goes on."`
	Alerts  Page[Alert] `json:"alerts" doc:"What was said about it, newest first; GET /alerts goes on."`
}

// EntityPath identifies an entity's key by the path.
type EntityPath struct {
	Entity identifier `path:"entity" doc:"The kind of thing." example:"order"`
	Key    identifier `path:"key" doc:"Which one." example:"1234"`
}

// EntityQuery identifies an entity's key by path and query, for keys that do not fit into a path.
type EntityQuery struct {
	Entity identifier `path:"entity" doc:"The kind of thing." example:"order"`
	Key    identifier `query:"key" required:"true" doc:"Which one." example:"a/b c"`
}

// entityAPI has the operations on all of an entity.
type entityAPI struct {
	lists interface {
		JobReader
		HistoryReader
	}
	desk   JobActions
	alerts *alertAPI
	view   *jobView
}

func (a *entityAPI) register(all *operations) {
	o := operation{
		ID: "get-entity", Tag: tagJobs, Method: "GET", Path: "/entities/{entity}/{key}", Does: "shows all that is known of an entity's key",
		Scope: access.Read, Reach: reachFiltered,
	}
	register(all, o, withBody(func(ctx context.Context, in *EntityPath) (Entity, error) {
		return a.get(ctx, string(in.Entity), string(in.Key))
	}))
	o.ID, o.Path, o.Does = o.ID+"-by-query", "/entities/{entity}", o.Does+"; the key is in ?key="
	register(all, o, withBody(func(ctx context.Context, in *EntityQuery) (Entity, error) {
		return a.get(ctx, string(in.Entity), string(in.Key))
	}))
	register(all, operation{
		ID: "cancel-entity-jobs", Tag: tagJobs, Method: "DELETE", Path: "/entities/{entity}/{key}/jobs", Does: "ends all waits for an entity's key",
		Says:  "Those of every rule; what was said about them is closed by alerts. No job is no error: none is cancelled.",
		Scope: access.Rules, Reach: reachAll, Status: http.StatusOK,
	}, withBody(a.cancelJobs))
}

func (a *entityAPI) get(ctx context.Context, entity, key string) (Entity, error) {
	e, f := Entity{Entity: entity, Key: key}, futurejobs.Filter{Entity: entity, Key: key}
	jobs, err := a.lists.Jobs(ctx, filterVisible(ctx, f))
	if err != nil {
		return e, err
	}
	history, err := a.lists.History(ctx, filterVisible(ctx, f))
	if err != nil {
		return e, err
	}
	e.Jobs, e.History = pageOf(jobs, a.view.whole), pageOf(history, wholeEnded)
	e.Alerts, err = a.alerts.alerts(ctx, f)
	return e, err
}

// Cancelled is the number of cancelled jobs.
type Cancelled struct {
	Cancelled int `json:"cancelled"`
}

func (a *entityAPI) cancelJobs(ctx context.Context, in *EntityPath) (Cancelled, error) {
	n, err := a.desk.CancelEntity(ctx, string(in.Entity), string(in.Key))
	return Cancelled{n}, err
}
