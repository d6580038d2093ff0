package web

import (
	"context"
	"net/http"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

// Entity is everything about an entity's key: the first page of each list.
type Entity struct {
	Entity  string         `json:"entity" doc:"Entity type." example:"order"`
	Key     string         `json:"key" doc:"Key of the entity." example:"1234"`
	Jobs    Page[Job]      `json:"jobs" doc:"Pending jobs of the entity, next due first. GET /jobs?entity=&key= returns further pages."`
	History Page[EndedJob] `json:"history" doc:"Ended jobs of the entity, newest first. GET /history returns further pages."`
	Alerts  Page[Alert]    `json:"alerts" doc:"Alerts of the entity, newest first. GET /alerts returns further pages."`
}

// EntityPath identifies an entity's key by the path.
type EntityPath struct {
	Entity identifier `path:"entity" doc:"Entity type." example:"order"`
	Key    identifier `path:"key" doc:"Key of the entity." example:"1234"`
}

// EntityQuery identifies an entity's key by path and query, for keys that do not fit into a path.
type EntityQuery struct {
	Entity identifier `path:"entity" doc:"Entity type." example:"order"`
	Key    identifier `query:"key" required:"true" doc:"Key of the entity." example:"a/b c"`
}

// entityAPI has the operations on all of an entity.
type entityAPI struct {
	lists interface {
		JobReader
		HistoryReader
	}
	actions JobActions
	alerts  *alertAPI
	view    *jobView
}

func (a *entityAPI) register(all *operations) {
	o := operation{
		ID: "get-entity", Tag: tagJobs, Method: "GET", Path: "/entities/{entity}/{key}", Summary: "get the jobs, history and alerts of an entity",
		Scope: access.Read, Reach: reachFiltered,
	}
	register(all, o, withBody(func(ctx context.Context, in *EntityPath) (Entity, error) {
		return a.get(ctx, string(in.Entity), string(in.Key))
	}))
	o.ID, o.Path, o.Summary = o.ID+"-by-query", "/entities/{entity}", o.Summary+"; the key is in ?key="
	register(all, o, withBody(func(ctx context.Context, in *EntityQuery) (Entity, error) {
		return a.get(ctx, string(in.Entity), string(in.Key))
	}))
	register(all, operation{
		ID: "cancel-entity-jobs", Tag: tagJobs, Method: "DELETE", Path: "/entities/{entity}/{key}/jobs", Summary: "cancel all jobs of an entity",
		Description: "Cancels the jobs of all rules. Their alerts are resolved. If there are no jobs, the call has no effect.",
		Scope:       access.Rules, Reach: reachAll, Status: http.StatusOK,
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
	e.Jobs, e.History = pageOf(jobs, a.view.whole(ctx)), pageOf(history, wholeEnded)
	e.Alerts, err = a.alerts.alerts(ctx, f)
	return e, err
}

// CancelResult is the number of cancelled jobs.
type CancelResult struct {
	Cancelled int `json:"cancelled" doc:"Number of cancelled jobs."`
}

func (a *entityAPI) cancelJobs(ctx context.Context, in *EntityPath) (CancelResult, error) {
	n, err := a.actions.CancelEntity(ctx, string(in.Entity), string(in.Key))
	return CancelResult{n}, err
}
