package remotehandlers

import (
	"encoding/json"

	"github.com/invopop/jsonschema"

	"deadman/alerts"
)

// answer is what readAnswer reads, as its schema has it.
type answer struct {
	Next    instantOrNull  `json:"next,omitempty" jsonschema_description:"When to look again; null: never, and the wait ends. Bounded by the rule's guards."`
	Nominal bool           `json:"nominal,omitempty" jsonschema_description:"next follows from a plan and not from this look: guards.horizon does not bound it."`
	Outcome string         `json:"outcome,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9_-]{0\\,62}$" jsonschema_description:"How the wait ends, in the place of next; without it and next null: cleared."`
	Step    int            `json:"step,omitempty" jsonschema:"minimum=0" jsonschema_description:"Steps taken after this check; absent: those of the request."`
	State   map[string]any `json:"state,omitempty" jsonschema_description:"What was found out, for the alerts to carry. The wait does not keep it."`
	Alerts  []said         `json:"alerts,omitempty" jsonschema:"maxItems=32" jsonschema_description:"What to say, in this order."`
}

// said is one alert of an answer.
type said struct {
	Severity alerts.Severity   `json:"severity,omitempty" jsonschema:"enum=info,enum=warning,enum=error,enum=critical" jsonschema_description:"warning, where it is absent."`
	Status   alerts.Status     `json:"status,omitempty" jsonschema:"enum=firing,enum=resolved" jsonschema_description:"firing, where it is absent; resolved closes what was said before."`
	Step     string            `json:"step,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9_-]{0\\,62}$" jsonschema_description:"The name of the step that is taken."`
	Text     string            `json:"text,omitempty" jsonschema_description:"What people read."`
	Labels   map[string]string `json:"labels,omitempty" jsonschema_description:"Beside those of the rule, and over them."`
}

// instantOrNull is a field that may be null.
type instantOrNull struct{}

// JSONSchema is of jsonschema.
func (instantOrNull) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string", Format: "date-time"}, {Type: "null"}}}
}

// Schema is the JSON Schema (2020-12) of what a service gets, #/$defs/request, and of what it
// answers, #/$defs/answer.
func Schema() ([]byte, error) {
	strict := jsonschema.Reflector{DoNotReference: true, Anonymous: true}
	open := strict // a later version may tell more
	open.AllowAdditionalProperties = true
	request, reply := open.Reflect(Request{}), strict.Reflect(answer{})
	request.Version, reply.Version = "", ""
	reply.AnyOf = []*jsonschema.Schema{{Required: []string{"next"}}, {Required: []string{"outcome"}}}
	return json.MarshalIndent(jsonschema.Schema{
		Version: jsonschema.Version, ID: "urn:deadman:schema:handler", Title: "A handler of deadman",
		Description: "A service on " + Subject("NAME") + " gets a request, and answers with an answer.",
		Definitions: jsonschema.Definitions{"request": request, "answer": reply},
		AnyOf:       []*jsonschema.Schema{{Ref: "#/$defs/request"}, {Ref: "#/$defs/answer"}},
	}, "", "  ")
}
