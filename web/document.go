package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"deadman/rules/document"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/casing"

	"deadman/rules"
)

const (
	jsonType = "application/json"
	yamlType = "application/yaml"
)

// ruleOut is a rule document as the API returns it.
type ruleOut struct {
	ContentType string `header:"Content-Type"`
	ETag        string `header:"ETag" doc:"Version of the rule, in quotes."`
	Vary        string `header:"Vary"`
	Body        []byte
}

// documentOut returns a version's document in the type that the client accepts: JSON, as it is stored, or YAML, as its
// author wrote it.
func documentOut(ctx context.Context, r Rules, s rules.RuleVersion, accept string) (*ruleOut, error) {
	out := &ruleOut{ContentType: jsonType, ETag: etag(s.Version), Vary: "Accept", Body: s.Document}
	if !acceptsYAML(accept) {
		return out, nil
	}
	text, err := r.Text(ctx, s)
	out.ContentType, out.Body = yamlType, text
	return out, err
}

// acceptsYAML reports whether a client accepts YAML before JSON.
func acceptsYAML(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		kind, _, err := mime.ParseMediaType(part)
		switch {
		case err != nil:
		case kind == jsonType:
			return false
		case kind == yamlType || kind == "application/x-yaml" || kind == "text/yaml":
			return true
		}
	}
	return false
}

// documentSchema refers to the schema of a rule.
func documentSchema() *huma.Schema { return &huma.Schema{Ref: schemaPath + "RuleDocument"} }

// describeDocument adds the schema of a rule, rules.Schema, to the schemas, and each of its parts under a name of its
// own.
func describeDocument(schemas huma.Registry) error {
	text, err := document.Schema()
	if err != nil {
		return fmt.Errorf("schema of a rule: %w", err)
	}
	var document struct {
		Parts map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("schema of a rule: %w", err)
	}
	document.Parts[""] = text
	for name, part := range document.Parts {
		for other := range document.Parts {
			part = bytes.ReplaceAll(part, []byte(`"#/$defs/`+other+`"`), []byte(`"`+schemaPath+partName(other)+`"`))
		}
		schema := make(map[string]any)
		if err := json.Unmarshal(part, &schema); err != nil {
			return fmt.Errorf("schema of a rule: %s: %w", name, err)
		}
		for _, key := range []string{"$defs", "$schema", "$id"} {
			delete(schema, key)
		}
		schemas.Map()[partName(name)] = &huma.Schema{Extensions: schema}
	}
	return nil
}

// partName returns the name of a part of a rule's schema, or of the whole, in the OpenAPI description.
func partName(part string) string { return "Rule" + casing.Camel(cmp.Or(part, "document")) }

const exampleYAML = `name: order-unshipped
entity: order
trigger: {event: orders.created, key: event.id}
resolve: {event: orders.shipped, key: event.id}
escalate:
  - {after: 3h, step: primary, severity: warning, text: "order {{key}} not shipped since {{since}}"}
`

// exampleJSON is exampleYAML as JSON.
var exampleJSON = map[string]any{
	"name": "order-unshipped", "entity": "order",
	"trigger": map[string]any{"event": "orders.created", "key": "event.id"},
	"resolve": map[string]any{"event": "orders.shipped", "key": "event.id"},
	"escalate": []any{map[string]any{
		"after": "3h", "step": "primary", "severity": "warning", "text": "order {{key}} not shipped since {{since}}",
	}},
}

// documentContent is the media types of a rule document.
func documentContent() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{
		jsonType: {Schema: documentSchema(), Example: exampleJSON},
		yamlType: {Schema: &huma.Schema{Type: huma.TypeString}, Example: exampleYAML},
	}
}

// documentBody is the request body of a rule document.
func documentBody() *huma.RequestBody {
	return &huma.RequestBody{Required: true, Description: "The rule, as YAML or JSON.", Content: documentContent()}
}

// changeAnswers are the responses to a saved rule.
func changeAnswers() map[string]*huma.Response {
	changed := map[string]*huma.MediaType{jsonType: {Schema: &huma.Schema{Ref: schemaPath + "RuleChange"}}}
	return map[string]*huma.Response{
		"200": {Description: "The rule was replaced or is unchanged, or the request is a dry run", Content: changed},
		"201": {Description: "The rule was created", Content: changed},
	}
}

// documentAnswer is the response with a rule document.
func documentAnswer() map[string]*huma.Response {
	return map[string]*huma.Response{"200": {Description: "The rule document", Content: documentContent()}}
}
