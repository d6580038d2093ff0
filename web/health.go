package web

import (
	"context"
	"net/http"
)

// Condition is one thing that has to be so for a node to be ready.
type Condition struct {
	Name   string `json:"name"` // such as database, nats, bindings, sweep, draining
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // for people; no secrets, it is public
}

// Health looks at all conditions. A node that drains has one that is not OK.
type Health func(ctx context.Context) []Condition

// Readiness is what /readyz answers.
type Readiness struct {
	Ready      bool        `json:"ready"`
	Conditions []Condition `json:"conditions"`
}

func (a *api) readiness(ctx context.Context) Readiness {
	out := Readiness{Ready: true, Conditions: a.Health(ctx)}
	for _, c := range out.Conditions {
		out.Ready = out.Ready && c.OK
	}
	return out
}

func (a *api) ready(w http.ResponseWriter, r *http.Request) {
	answer := a.readiness(r.Context())
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	a.write(w, r, status, answer)
}

// alive says that the process answers, and nothing of what it needs.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("ok\n")) // a client that left needs no answer
}
