package alerts

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

// FieldDocs describes the fields of alerts, for schemas.
var FieldDocs = map[string]string{
	"schema_version":    "Version of the alert document.",
	"id":                "ID of the alert, ordered by time.",
	"rule":              "Name of the rule. deadman for system alerts.",
	"rule_version":      "Version of the rule.",
	"entity":            "Entity type.",
	"key":               "Key of the entity.",
	"decided_at":        "Time at which the alert was raised.",
	"since":             "Start of the job.",
	"slot":              "Slot of the check that raised the alert. Of an alert that an event resolved: the time at which the stream stored the event.",
	"check_count":       "Number of completed checks of the job.",
	"status":            "firing, resolved, undetermined (a check cannot get an answer), gave_up (a guard ended the job) or expired (the job was overdue for too long).",
	"severity":          "info, warning, error or critical.",
	"step":              "Name of the step.",
	"step_index":        "Number of the step, starting with 0.",
	"skipped_steps":     "Skipped steps that were due at the same check.",
	"text":              "Text of the alert.",
	"labels":            "Labels of the alert.",
	"event":             "Body of the trigger event.",
	"state":             "State of the job: the trigger event with later updates and lookup results merged in. Of the system alert newer-rules: open_alerts, the IDs of alerts that stay open.",
	"closes":            "IDs of the alerts that this alert resolves.",
	"source":            "Outages: source or handler that does not answer.",
	"count":             "Number of affected jobs, events or checks.",
	"bodies_over_quota": "Whether event and state were not kept because the quota kept_alert_bytes was used up.",
	"url":               "Link to the alert on the node's pages.",
}

// placeholder matches a part of SystemKind.Topic that differs between alerts of the kind.
var placeholder = regexp.MustCompile(`<[a-z]+>`)

// Schema returns the JSON Schema (2020-12) of the alert document. Later versions may add fields, so further fields are
// valid.
func Schema() ([]byte, error) {
	return json.MarshalIndent(schema("alert", "An alert of deadman"), "", "  ")
}

// SystemSchema returns the JSON Schema (2020-12) of the alerts that a node raises about itself or a dependency.
func SystemSchema() ([]byte, error) {
	s := schema("system-alert", "An alert of deadman about itself")
	for name, value := range map[string]any{"rule": SystemRule, "entity": SystemEntity, "rule_version": 0} {
		property, _ := s.Properties.Get(name)
		property.Const = value
	}
	for _, k := range SystemKinds {
		s.AnyOf = append(s.AnyOf, k.schema())
	}
	return json.MarshalIndent(s, "", "  ")
}

// schema returns the form of the key and the step of the kind.
func (k SystemKind) schema() *jsonschema.Schema {
	fixed := placeholder.Split(k.Topic, -1)
	for i := range fixed {
		fixed[i] = regexp.QuoteMeta(fixed[i])
	}
	s := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
	s.Properties.Set("key", &jsonschema.Schema{Pattern: "^" + strings.Join(fixed, ".+") + "$"})
	if k.Step == "" {
		s.Properties.Set("step", jsonschema.FalseSchema)
		return s
	}
	s.Properties.Set("step", &jsonschema.Schema{Const: k.Step})
	s.Required = []string{"step"}
	return s
}

// schema returns the form of an alert as Alert.JSON writes it.
func schema(name, title string) *jsonschema.Schema {
	reflector := jsonschema.Reflector{DoNotReference: true, Anonymous: true, AllowAdditionalProperties: true, Mapper: formOfID}
	s := reflector.Reflect(document{})
	s.ID, s.Title = jsonschema.ID("urn:deadman:schema:"+name), title
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if p.Key == "event" || p.Key == "state" {
			p.Value = &jsonschema.Schema{} // any JSON
		}
		p.Value.Description = FieldDocs[p.Key]
		switch p.Key {
		case "schema_version":
			p.Value.Const = SchemaVersion
		case "severity":
			p.Value.Enum = anyOf(Severities)
		case "status":
			p.Value.Enum = anyOf(Statuses)
		}
	}
	return s
}

// formOfID returns the form of an ID; nil: t is another type.
func formOfID(t reflect.Type) *jsonschema.Schema {
	if t != reflect.TypeFor[ID]() {
		return nil
	}
	return &jsonschema.Schema{Type: "string", Format: "uuid"}
}

func anyOf[T any](words []T) []any {
	all := make([]any, len(words))
	for i, word := range words {
		all[i] = word
	}
	return all
}
