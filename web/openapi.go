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
	tagRules  = "rules"
	tagJobs   = "jobs"
	tagAlerts = "alerts"
	tagEvents = "events"
	tagPeople = "people"
	tagTokens = "access"
	tagNode   = "node"
)

var tags = []*huma.Tag{
	{Name: tagRules, Description: "What to wait for and how to escalate. A rule is a versioned document, as JSON or as YAML. Its ETag is its version, for If-Match."},
	{Name: tagJobs, Description: "The pending promises to look at one entity for one rule, and what became of them."},
	{Name: tagAlerts, Description: "What was said, as consumers of the stream see it."},
	{Name: tagPeople, Description: "How alerts reach people, and when they do not."},
	{Name: tagEvents, Description: "What happened, and what could not be taken in."},
	{Name: tagTokens, Description: "Who may do what, and who did what."},
	{Name: tagNode, Description: "The processes that share the work."},
}

const about = `deadman tells people when something has not happened.

Instants are RFC 3339, in UTC. A list answers {"items": [...], "next": "cursor"}; give next as cursor for the page after it. ` +
	`Unknown query parameters and fields are refused. What goes wrong is a problem (RFC 9457) with a type that does not change.

A node that is open, as one on loopback is that has no public URL and never had a token, takes requests without one that no proxy passed on. ` +
	`Any other takes Authorization: Bearer and a token with the scope that the operation names.

A POST that changes something takes an Idempotency-Key: the same request with the same key is answered as it was the first time, for 24 hours.`

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
			bearerScheme: {Type: "http", Scheme: "bearer", Description: "A token, made with: deadman token create"},
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
