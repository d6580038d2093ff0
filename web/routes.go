package web

import (
	"context"

	"github.com/go-chi/chi/v5"

	"deadman/internal/access"
)

const apiPath = "/api/v1"

// Route is an operation in the API's index.
type Route struct {
	Method string `json:"method" example:"GET"`
	Path   string `json:"path" doc:"With names of parts in braces." example:"/api/v1/jobs"`
	Does   string `json:"does"`
}

// Index is the answer at the API's root.
type Index struct {
	Version string  `json:"version,omitempty" doc:"Of the program."`
	Routes  []Route `json:"routes" nullable:"false"`
}

// mount registers all operations. Each part of the API is in the file of its noun.
func (a *api) mount(r chi.Router) {
	a.huma, a.spelled = newHuma(r, a)
	a.huma.UseMiddleware(a.admit, a.query, a.limitConcurrency, a.idempotent)
	a.mountRules()
	a.mountPreview()
	a.mountPings()
	a.mountSchemas()
	a.mountJobs()
	a.mountSlots()
	a.mountEntities()
	a.mountHistory()
	a.mountAlerts()
	a.mountRepublish()
	a.mountChannels()
	a.mountStreams()
	a.mountSources()
	a.mountOutages()
	a.mountHandlers()
	a.mountMutes()
	a.mountEvents()
	a.mountDeadLetters()
	a.mountNodes()
	a.mountTokens()
	a.mountSelf()
	a.mountSessions()
	a.mountQuotas()
	a.mountAudit()

	index := func(context.Context, *nothing) (Index, error) {
		return Index{Version: a.Version, Routes: a.routes}, nil
	}
	o := operation{ID: "get-index", Tag: tagNode, Method: "GET", Does: "lists what the API does", Scope: access.Read, Reach: reachPublic, Hidden: true}
	register(a, o, withBody(index))
	o.Path = "/"
	register(a, o, withBody(index))
	a.relaxSchemas()
}
