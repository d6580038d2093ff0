package web

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
)

// specPath is the path of the API's description, as OpenAPI 3.1.
const specPath = "/openapi.json"

// schemaPath is the prefix of references to schemas in the description.
const schemaPath = "#/components/schemas/"

// bearerScheme is the name of the security scheme in the description.
const bearerScheme = "token"

// The tags of the API, in the order of the documentation.
const (
	tagRules     = "rules"
	tagSchedules = "schedules"
	tagJobs      = "jobs"
	tagAlerts    = "alerts"
	tagEvents    = "events"
	tagPeople    = "notifications"
	tagTokens    = "access"
	tagNode      = "node"
)

var tags = []*huma.Tag{
	{Name: tagRules, Description: "A rule is a versioned document in JSON or YAML: trigger, resolve and escalation. Its ETag is its version, for If-Match."},
	{Name: tagSchedules, Description: "Stored schedules of rules whose trigger has schedule: \"@stored\". Each tick of a schedule emits the event of its rule."},
	{Name: tagJobs, Description: "A job is a rule waiting for one key of an entity. Pending jobs are checked at their slots; ended jobs are in the history."},
	{Name: tagAlerts, Description: "Alerts, as in the stream DEADMAN_ALERTS."},
	{Name: tagPeople, Description: "Channels for alerts, and mutes."},
	{Name: tagEvents, Description: "Publish events, and handle dead letters: events that could not be processed."},
	{Name: tagTokens, Description: "Tokens, sessions, quotas and the audit log."},
	{Name: tagNode, Description: "Nodes, streams, sources and handlers."},
}

const about = `deadman raises an alert when an expected event does not happen in time.

Times are RFC 3339 in UTC. Durations are a number and a unit, such as 90s, 2h or 3d. ` +
	`Lists return {"items": [...], "next": "cursor"}; pass next as cursor to get the next page. ` +
	`Unknown query parameters and fields are refused. Errors are problem documents (RFC 9457) with a stable type.

Requests need the header Authorization: Bearer with a token that has the scope of the operation. ` +
	`A node on loopback without a public URL requires no token until the first token is created, except for requests through a proxy.

POST requests that change something accept an Idempotency-Key: for 24 hours, the same request with the same key returns the first response.`

// newOperations returns an API without operations, whose routes are added to a router.
func newOperations(r chi.Router, by *responder, version string) *operations {
	schemas := huma.NewMapRegistry(schemaPath, huma.DefaultSchemaNamer)
	schemas.RegisterTypeAlias(reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[Problem]())
	if err := describeDocument(schemas); err != nil {
		panic(err) // it is built from the program's own schema of rules
	}
	if version == "" {
		version = "dev"
	}
	described := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: "deadman", Version: version, Description: about},
		Tags:    tags,
		Components: &huma.Components{Schemas: schemas, SecuritySchemes: map[string]*huma.SecurityScheme{
			bearerScheme: {Type: "http", Scheme: "bearer", Description: "A token, created with: deadman token create"},
		}},
	}
	// huma's own pages of the description would need no token; spec serves it instead.
	h := humachi.New(r, huma.Config{
		OpenAPI: described, DefaultFormat: "application/json",
		Formats: map[string]huma.Format{"application/json": wholeJSON, "json": wholeJSON},
	})
	return &operations{responder: by, huma: h, encoded: sync.OnceValues(func() ([]byte, error) { return json.Marshal(described) })}
}

// operations has the operations of the API, and its description.
type operations struct {
	*responder
	huma    huma.API
	routes  []Route
	encoded func() ([]byte, error) // encodes the description as JSON
}

// relaxSchemas permits unknown fields in the schemas of responses, for clients of earlier versions, and declares their
// lists non-null. Schemas of requests stay strict.
func (a *operations) relaxSchemas() {
	described := a.huma.OpenAPI()
	schemas, strict := described.Components.Schemas, make(map[string]bool)
	for _, p := range described.Paths {
		for _, op := range []*huma.Operation{p.Post, p.Put} {
			if op != nil && op.RequestBody != nil && op.RequestBody.Content[jsonType] != nil {
				reached(schemas, op.RequestBody.Content[jsonType].Schema, strict)
			}
		}
	}
	for name, s := range schemas.Map() {
		if strict[name] {
			continue
		}
		if s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
		for _, p := range s.Properties {
			p.Nullable = p.Nullable && p.Type != huma.TypeArray
		}
	}
}

// reached collects the names of all schemas that a schema refers to.
func reached(schemas huma.Registry, s *huma.Schema, into map[string]bool) {
	if s == nil {
		return
	}
	if name, isRef := strings.CutPrefix(s.Ref, schemaPath); isRef && !into[name] {
		into[name] = true
		reached(schemas, schemas.SchemaFromRef(s.Ref), into)
	}
	reached(schemas, s.Items, into)
	for _, p := range s.Properties {
		reached(schemas, p, into)
	}
}

// spec answers with the description of the API.
func (a *operations) spec(w http.ResponseWriter, r *http.Request) {
	text, err := a.encoded()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.send(w, r, "application/vnd.oai.openapi+json;version=3.1", http.StatusOK, text)
}
