package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"deadman/rules/document"

	"github.com/go-chi/chi/v5"

	"deadman/internal/access"
)

// responder answers requests: with a value, a page or a problem.
type responder struct {
	log    *slog.Logger
	faults []ErrorStatus
	pages  Pages
}

// problemOf returns the problem of err for the client.
func (a *responder) problemOf(err error) *Problem {
	var p *Problem
	var wrong document.Problems
	var request access.Problems
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &wrong):
		return ruleInvalid(wrong)
	case errors.As(err, &request):
		return invalidToken(request)
	}
	for _, table := range [][]ErrorStatus{a.faults, errorStatuses} {
		for _, f := range table {
			if !errors.Is(err, f.Is) {
				continue
			}
			kind := f.Kind
			if kind == "" {
				kind = kindOf(f.Status)
			}
			if f.Status < http.StatusInternalServerError {
				return problemIs(kind, f.Status, "%v", err)
			}
			p := problemIs(kind, f.Status, "%s", f.Remedy)
			p.retry = f.Retry
			return p
		}
	}
	return problem(http.StatusInternalServerError, "internal error; see the log of the node")
}

// refuse returns the problem of err, and logs errors of the node.
func (a *responder) refuse(ctx context.Context, method, path string, err error) *Problem {
	p := a.problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		a.log.ErrorContext(ctx, "request failed", "method", method, "path", path, "status", p.Status, "err", err)
	}
	return p
}

// fail answers with the problem of err: with a page, if a browser requests one.
func (a *responder) fail(w http.ResponseWriter, r *http.Request, err error) {
	a.failWith(w, r, a.refuse(r.Context(), r.Method, logged(r.URL.Path), err))
}

// failWith answers with a problem: with a page, if a browser requests one.
func (a *responder) failWith(w http.ResponseWriter, r *http.Request, p *Problem) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	if a.pages != nil && forPeople(r) {
		a.pages.Refuse(w, r, p, principalOf(r.Context()).anonymous())
		return
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	a.send(w, r, problemType, p.Status, append(body, '\n'))
}

func (a *responder) notFound(w http.ResponseWriter, r *http.Request) {
	hint := "; the API is under " + apiPath
	switch {
	case strings.HasPrefix(r.URL.Path, apiPath+"/"):
		hint = "; " + apiPath + " lists what there is"
	case forPeople(r):
		hint = ""
	}
	a.fail(w, r, problem(http.StatusNotFound, "nothing exists at %s%s", logged(r.URL.Path), hint))
}

func (a *responder) notAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		var allowed []string
		for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			method := m
			if m == http.MethodHead {
				method = http.MethodGet
			}
			if routes.Match(chi.NewRouteContext(), method, path) {
				allowed = append(allowed, m)
			}
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		a.fail(w, r, problem(http.StatusMethodNotAllowed, "%s does not support %s; use %s", r.Method, logged(r.URL.Path), list))
	}
}

// write sends v as JSON. It encodes v first, so that an encoding error becomes a problem instead of a partial answer.
func (a *responder) write(w http.ResponseWriter, r *http.Request, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.send(w, r, "application/json", status, append(body, '\n'))
}

func (a *responder) send(w http.ResponseWriter, r *http.Request, kind string, status int, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		a.log.DebugContext(r.Context(), "the client left before the answer", "path", logged(r.URL.Path), "err", err)
	}
}

// frame answers with a page from a template of this package, in the layout of all pages.
func (a *responder) frame(w http.ResponseWriter, r *http.Request, f PageContent, content *template.Template, view any) {
	if a.pages == nil {
		a.fail(w, r, problem(http.StatusNotFound, "this node has no pages"))
		return
	}
	var out bytes.Buffer
	if err := content.Execute(&out, view); err != nil {
		a.fail(w, r, fmt.Errorf("page %s: %w", f.Name, err))
		return
	}
	f.Content = template.HTML(out.Bytes()) //nolint:gosec // the template has escaped what is not ours
	a.pages.Frame(w, r, f)
}
