package web

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
)

const apiPath = "/api/v1"

// Route is one thing that the API does, as its index says it.
type Route struct {
	Method string `json:"method"`
	Path   string `json:"path"` // with names of parts in braces
	Does   string `json:"does"`

	handler http.HandlerFunc
}

// Index is what the API answers at its root.
type Index struct {
	Version string  `json:"version,omitempty"` // of the program
	Routes  []Route `json:"routes"`
}

// routes are all that the API has beside its index.
func (a *api) routes() []Route {
	job, noJob := op(a, http.StatusOK, readRef, a.job), op(a, http.StatusNoContent, readRef, a.cancel)
	return []Route{
		{"GET", "/jobs", "lists pending jobs, next due first", op(a, http.StatusOK, readJobs, a.jobs)},
		{"GET", "/jobs/{rule}", "shows the pending job of the key in ?key=", job},
		{"GET", "/jobs/{rule}/{key}", "shows a pending job", job},
		{"DELETE", "/jobs/{rule}", "ends the wait for the key in ?key=", noJob},
		{"DELETE", "/jobs/{rule}/{key}", "ends the wait for a key", noJob},
		{"GET", "/history", "lists ended jobs, newest first", op(a, http.StatusOK, readFilter, a.history)},
		{"GET", "/alerts", "lists alerts, newest first; follows them with Accept: text/event-stream", a.alertsOrStream},
		{"GET", "/alerts/{id}", "shows an alert", op(a, http.StatusOK, readAlertID, a.alert)},
		{"GET", "/dead-letters", "lists events that could not be taken in, newest first", op(a, http.StatusOK, readDeadLetters, a.deadLetters)},
		{"GET", "/nodes", "lists the live nodes and the shards they hold", op(a, http.StatusOK, readNothing, a.nodes)},
		{"POST", "/events/{subject}", "publishes an event", op(a, http.StatusAccepted, readEvent, a.event)},
	}
}

// mount puts the routes, and the index of them, below apiPath.
func (a *api) mount(r chi.Router) {
	index := Index{Version: a.Version, Routes: a.routes()}
	for i, route := range index.Routes {
		r.Method(route.Method, route.Path, route.handler)
		index.Routes[i].Path = apiPath + route.Path
	}
	r.Get("/", op(a, http.StatusOK, readNothing, func(context.Context, struct{}) (Index, error) { return index, nil }))
}
