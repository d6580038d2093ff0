package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"deadman/web"
)

// client calls the API within the process as the visitor of a request. The pages can't do more than the visitor's
// token may do over HTTP.
type client struct {
	api     http.Handler
	visitor *http.Request
}

const apiPath = "/api/v1"

// get reads a document of the API into out. The path is relative to /api/v1. A problem of the API is returned as
// *web.Problem.
func (c client) get(path string, query url.Values, out any) error {
	return c.do(http.MethodGet, path, query, nil, out)
}

// yaml reads a document of the API as YAML.
func (c client) yaml(path string) (string, error) {
	a, err := c.send(http.MethodGet, path, nil, http.Header{"Accept": {yamlType}}, nil)
	if err == nil {
		err = a.decode(path, nil)
	}
	return a.body.String(), err
}

// do sends a request with body as JSON unless it is nil, and decodes the answer into out unless it is nil.
func (c client) do(method, path string, query url.Values, body, out any) error {
	var text []byte
	header := make(http.Header)
	if body != nil {
		header.Set("Content-Type", "application/json")
		var err error
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	a, err := c.send(method, path, query, header, text)
	if err != nil {
		return err
	}
	return a.decode(method+" "+path, out)
}

// send sends a request and returns the raw answer.
func (c client) send(method, path string, query url.Values, header http.Header, body []byte) (a answer, err error) {
	target, err := url.Parse(apiPath + path)
	if err != nil {
		return a, fmt.Errorf("%s %s: %w", method, path, err)
	}
	target.RawQuery = query.Encode()
	r, err := c.request(method, target.String(), body)
	if err != nil {
		return a, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	c.api.ServeHTTP(&a, r)
	return a, nil
}

// request builds a request with the visitor's credentials. It clears the chi route context, because the page's route
// is not the API's.
func (c client) request(method, target string, body []byte) (*http.Request, error) {
	ctx := context.WithValue(c.visitor.Context(), chi.RouteCtxKey, (*chi.Context)(nil))
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	r.RequestURI, r.Host, r.RemoteAddr, r.TLS = r.URL.RequestURI(), c.visitor.Host, c.visitor.RemoteAddr, c.visitor.TLS
	for _, name := range []string{"Authorization", "Cookie"} {
		r.Header[name] = c.visitor.Header[name]
	}
	return r, nil
}

// answer is a buffered response of the API.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = make(http.Header)
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

func (a *answer) decode(what string, out any) error {
	if a.status >= http.StatusBadRequest {
		problem := new(web.Problem)
		if err := json.Unmarshal(a.body.Bytes(), problem); err != nil {
			return fmt.Errorf("%s: status %d and no reason: %w", what, a.status, err)
		}
		return problem
	}
	if out == nil || a.body.Len() == 0 {
		return nil
	}
	if err := json.Unmarshal(a.body.Bytes(), out); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
