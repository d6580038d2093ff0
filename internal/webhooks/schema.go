package webhooks

import (
	"maps"
	"slices"

	"github.com/invopop/jsonschema"

	"deadman/internal/configfile"
)

var fileFields = configfile.Table{
	{Name: "hooks", Form: configfile.ListForm(hookForm(), MaxHooks), Text: "The hooks."},
}

var hookFields = configfile.Table{
	{Name: "name", Form: configfile.NameForm(), Required: true, Text: "Name of the hook: POST /hooks/NAME."},
	{Name: "subject", Form: configfile.TextForm(), Text: "Subject of the published events; hooks for buttons have none."},
	{Name: "scheme", Form: configfile.WordForm(slices.Sorted(maps.Keys(verifiers))...), Required: true, Text: "Signature scheme of the sender."},
	{Name: "secret_file", Form: configfile.TextForm(), Text: "File with the secrets, one on each line; a relative path starts at the folder of this file."},
}

// hookForm is the form of a hook. Its scheme decides which other fields it has.
func hookForm() *jsonschema.Schema {
	s := hookFields.Object()
	for _, scheme := range slices.Sorted(maps.Keys(verifiers)) {
		h := Webhook{Scheme: scheme}
		is := &jsonschema.Schema{Properties: jsonschema.NewProperties(), Required: []string{"scheme"}}
		is.Properties.Set("scheme", &jsonschema.Schema{Const: scheme})
		has := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
		for _, f := range []struct {
			name string
			has  bool
		}{{"subject", !h.IsButton()}, {"secret_file", h.hasSecret()}} {
			if f.has {
				has.Required = append(has.Required, f.name)
			} else {
				has.Properties.Set(f.name, jsonschema.FalseSchema)
			}
		}
		s.AllOf = append(s.AllOf, &jsonschema.Schema{If: is, Then: has})
	}
	return s
}

// Schema returns the JSON Schema (2020-12) of a file of hooks, for editors.
func Schema() ([]byte, error) {
	return configfile.Schema(fileFields.Object(), "hooks", "Incoming webhooks of deadman")
}
