// Package web answers HTTP: the API under /api/v1, the page at /, health and metrics.
package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
)

// Options are what the handler answers from. Lists, Desk, Wire and Health have to be there.
type Options struct {
	Lists   Lists
	Desk    Desk
	Wire    Wire
	Health  Health
	Metrics *Metrics // nil: /metrics is not found

	// Faults are the sentinels of other rooms and the statuses they come to. They are
	// looked at before web's own.
	Faults []Fault

	// LoopbackOnly answers only requests that name a loopback host, so that no page of
	// another site can reach a node without tokens by rebinding its own name to it.
	LoopbackOnly bool
	// PublicURL is where people reach the node; its host passes LoopbackOnly too.
	PublicURL string

	Version string           // of the program, for people
	Log     *slog.Logger     // nil: slog.Default()
	Now     func() time.Time // nil: time.Now; what statuses are derived by
}

// New returns the handler for everything that a node answers.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &api{Options: o, troubles: troubles{known: make(map[string]trouble)}}
	r := chi.NewRouter()
	r.Use(a.access, a.rescue, a.sameSite(), middleware.GetHead, bounded)
	if o.LoopbackOnly {
		r.Use(a.loopback())
	}
	r.NotFound(a.notFound)
	r.MethodNotAllowed(a.notAllowed(r))

	r.Get("/", a.page)
	r.Get("/healthz", alive)
	r.Get("/readyz", a.ready)
	if o.Metrics != nil {
		r.Method(http.MethodGet, "/metrics", o.Metrics)
	}
	r.Get("/alerts/{id}", toAPI)
	r.Route(apiPath, a.mount)
	return r
}

// api is the handlers' common ground.
type api struct {
	Options
	troubles troubles
}
