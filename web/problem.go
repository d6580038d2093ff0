package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	futurejobs "deadman/future_jobs"
)

// Problem is an answer that is none, as RFC 9457 has it.
type Problem struct {
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail,omitempty"`
	Errors []Detail `json:"errors,omitempty"`
}

// Detail is one thing that is wrong with a request, and where.
type Detail struct {
	Location string `json:"location"` // such as query.limit
	Message  string `json:"message"`
}

// Error is what a person reads.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

func problem(status int, format string, args ...any) *Problem {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: fmt.Sprintf(format, args...),
	}
}

// Fault is a row of the table that turns errors into statuses.
type Fault struct {
	Is     error // a sentinel
	Status int
	// Remedy is what a client is told where the error itself stays inside: with a status
	// of 500 and above. Below, the error is what it is told.
	Remedy string
}

// statusClientLeft is for the log alone: nobody is there to read it.
const statusClientLeft = 499

var faults = []Fault{
	{Is: futurejobs.ErrNotFound, Status: http.StatusNotFound},
	{Is: futurejobs.ErrBadCursor, Status: http.StatusBadRequest},
	{Is: futurejobs.ErrRulesChanged, Status: http.StatusServiceUnavailable, Remedy: "the rules are changing; try again"},
	{Is: futurejobs.ErrMoved, Status: http.StatusServiceUnavailable, Remedy: "another node was faster; try again"},
	{Is: context.DeadlineExceeded, Status: http.StatusGatewayTimeout, Remedy: "the node could not find out in time; try again, and look at /readyz"},
	{Is: context.Canceled, Status: statusClientLeft},
}

// problemOf returns what a client is told about err.
func (a *api) problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	for _, table := range [][]Fault{a.Faults, faults} {
		for _, f := range table {
			if !errors.Is(err, f.Is) {
				continue
			}
			if f.Status < http.StatusInternalServerError {
				return problem(f.Status, "%v", err)
			}
			return problem(f.Status, "%s", f.Remedy)
		}
	}
	return problem(http.StatusInternalServerError, "the node could not do it; its log says why")
}

// fail answers with the problem that err is.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := a.problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		a.Log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "status", p.Status, "err", err)
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	a.send(w, r, "application/problem+json", p.Status, append(body, '\n'))
}

func (a *api) notFound(w http.ResponseWriter, r *http.Request) {
	hint := "the API is under " + apiPath
	if strings.HasPrefix(r.URL.Path, apiPath+"/") {
		hint = apiPath + " lists what there is"
	}
	a.fail(w, r, problem(http.StatusNotFound, "there is nothing at %s; %s", r.URL.Path, hint))
}

func (a *api) notAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			asked := m
			if m == http.MethodHead {
				asked = http.MethodGet
			}
			if routes.Match(chi.NewRouteContext(), asked, path) {
				allowed = append(allowed, m)
			}
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		a.fail(w, r, problem(http.StatusMethodNotAllowed, "%s cannot be done to %s; it takes %s", r.Method, r.URL.Path, list))
	}
}
