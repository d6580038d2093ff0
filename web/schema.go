package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	futurejobs "deadman/future_jobs"
	"deadman/internal/access"
)

const schemaType = "application/schema+json"

// schemaIn names a schema.
type schemaIn struct {
	Name identifier `path:"name" doc:"Name of the schema, such as rule, alert, notify or handler." example:"alert"`
}

// schemaOut is a JSON Schema.
type schemaOut struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// schemaAPI has the operation on JSON Schemas.
type schemaAPI struct {
	schemas map[string]func() ([]byte, error)
}

func (a *schemaAPI) register(all *operations) {
	register(all, operation{
		ID: "get-schema", Tag: tagRules, Method: "GET", Path: "/schemas/{name}", Summary: "get the JSON Schema of a kind of files, of alerts or of the handler protocol",
		Description: "rule, rule-test, calendars, sources, hooks, login, notify, settings and lookups are the schemas of files, for editors. " +
			"alert and system-alert describe alerts, and handler the requests to handlers and their answers.",
		Scope: access.Read, Reach: reachPublic, Errors: []int{http.StatusNotFound},
		Responses: map[string]*huma.Response{"200": {
			Description: "The JSON Schema, draft 2020-12", Content: map[string]*huma.MediaType{schemaType: {Schema: &huma.Schema{Type: huma.TypeObject}}},
		}},
	}, a.get)
}

func (a *schemaAPI) get(_ context.Context, in *schemaIn) (*schemaOut, error) {
	spell := a.schemas[string(in.Name)]
	if spell == nil {
		return nil, fmt.Errorf("schema %s: %w; the schemas are %s", in.Name, futurejobs.ErrNotFound, strings.Join(slices.Sorted(maps.Keys(a.schemas)), ", "))
	}
	body, err := spell()
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", in.Name, err)
	}
	return &schemaOut{ContentType: schemaType, Body: body}, nil
}
