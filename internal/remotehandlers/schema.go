package remotehandlers

import (
	"encoding/json"

	"github.com/invopop/jsonschema"

	"deadman/alerts"
)

// answer is the answer that readAnswer parses, as described by the schema.
type answer struct {
	Next    instantOrNull  `json:"next,omitempty" jsonschema_description:"Time of the next check; null ends the job. Limited by the rule's guards."`
	Nominal bool           `json:"nominal,omitempty" jsonschema_description:"next is a planned time that does not depend on this check: guards.horizon does not limit it."`
	Outcome string         `json:"outcome,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9_-]{0\\,62}$" jsonschema_description:"Outcome of the job, instead of next; if absent and next is null: cleared."`
	Step    int            `json:"step,omitempty" jsonschema:"minimum=0" jsonschema_description:"Number of steps taken after this check; absent: unchanged."`
	State   map[string]any `json:"state,omitempty" jsonschema_description:"Data for the alerts of this check. It is not stored in the job."`
	Alerts  []alertDraft   `json:"alerts,omitempty" jsonschema:"maxItems=32" jsonschema_description:"Alerts to raise, in this order."`
}

// alertDraft is one alert of an answer.
type alertDraft struct {
	Severity alerts.Severity   `json:"severity,omitempty" jsonschema:"enum=info,enum=warning,enum=error,enum=critical" jsonschema_description:"Default: warning."`
	Status   alerts.Status     `json:"status,omitempty" jsonschema:"enum=firing,enum=resolved" jsonschema_description:"Default: firing; resolved closes the open alert."`
	Step     string            `json:"step,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9_-]{0\\,62}$" jsonschema_description:"Name of the step taken."`
	Text     string            `json:"text,omitempty" jsonschema_description:"Text of the alert."`
	Labels   map[string]string `json:"labels,omitempty" jsonschema_description:"Labels added to those of the rule; they override labels of the same name."`
}

// instantOrNull is a field that may be null.
type instantOrNull struct{}

// JSONSchema implements the interface of jsonschema.
func (instantOrNull) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string", Format: "date-time"}, {Type: "null"}}}
}

// Schema returns the JSON Schema (2020-12) of requests, #/$defs/request, and answers, #/$defs/answer.
func Schema() ([]byte, error) {
	strict := jsonschema.Reflector{DoNotReference: true, Anonymous: true}
	open := strict // a later version may add fields
	open.AllowAdditionalProperties = true
	request, reply := open.Reflect(Request{}), strict.Reflect(answer{})
	request.Version, reply.Version = "", ""
	reply.AnyOf = []*jsonschema.Schema{{Required: []string{"next"}}, {Required: []string{"outcome"}}}
	return json.MarshalIndent(jsonschema.Schema{
		Version: jsonschema.Version, ID: "urn:deadman:schema:handler", Title: "A handler of deadman",
		Description: "A service on " + Subject("NAME") + " receives a request and responds with an answer.",
		Definitions: jsonschema.Definitions{"request": request, "answer": reply},
		AnyOf:       []*jsonschema.Schema{{Ref: "#/$defs/request"}, {Ref: "#/$defs/answer"}},
	}, "", "  ")
}
