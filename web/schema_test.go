package web_test

import (
	"encoding/json"
	"testing"

	"deadman/rules/document"

	"deadman/internal/access"
	"deadman/internal/remotehandlers"
	"deadman/web"
)

func TestSchemas(t *testing.T) {
	spell := map[string]func() ([]byte, error){"rule": document.Schema, "handler": remotehandlers.Schema}
	s := newFixture(t, closedNode, func(o *web.Options, _ *fixture) { o.Schemas = spell })
	bound := s.newToken("acme", "acme-*", access.Read)
	for name, id := range map[string]string{"rule": "urn:deadman:schema:rule", "handler": "urn:deadman:schema:handler"} {
		a := requestPath(t, s.Server, "GET", "/api/v1/schemas/"+name, "", bound...)
		var schema struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal([]byte(a.body), &schema); err != nil || a.StatusCode != 200 || schema.ID != id || a.Header.Get("Content-Type") != "application/schema+json" {
			t.Errorf("%s: %d %v, %v %.200s", name, a.StatusCode, err, a.Header, a.body)
		}
	}
	checkProblem(t, requestPath(t, s.Server, "GET", "/api/v1/schemas/rules", "", bound...), 404, web.NotFound, "the schemas are handler, rule")
}
