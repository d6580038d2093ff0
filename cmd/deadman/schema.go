package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"deadman/internal/configfile"
	"deadman/internal/ruletest"
	"deadman/server"
)

// schemas returns the JSON Schemas by name: those of the server, and those of files that only this program reads.
func schemas() map[string]func() ([]byte, error) {
	all := server.Schemas()
	maps.Copy(all, ownSchemas)
	return all
}

// ownSchemas are the schemas of files that package server does not know.
var ownSchemas = map[string]func() ([]byte, error){"settings": settingsSchema, "rule-test": ruletest.Schema}

func newSchemaCmd() *cobra.Command {
	names := slices.Sorted(maps.Keys(schemas()))
	return &cobra.Command{
		Use: "schema NAME", Short: "Print the JSON Schema of files, alerts or the handler protocol",
		Long: `Prints a JSON Schema (draft 2020-12), for editors and programs. A node has it at
/api/v1/schemas/NAME, too. The names are ` + strings.Join(names[:len(names)-1], ", ") + ` and
` + names[len(names)-1] + `. An editor with a YAML language server uses a schema if the first line of a file
is, for example: # yaml-language-server: $schema=deadman-notify.schema.json`,
		Example: "  deadman schema rule > " + schemaFile + "\n  deadman schema notify > deadman-notify.schema.json",
		Args:    exactly("NAME"), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			schemaOf := schemas()[args[0]]
			if schemaOf == nil {
				return usageError{fmt.Errorf("no schema %s; the schemas are %s", args[0], strings.Join(names, ", "))}
			}
			schema, err := schemaOf()
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), schema)
		},
	}
}

// schemaLineMark marks the line of a YAML file that names its schema for editors.
const schemaLineMark = "# yaml-language-server: "

// addSchemaLine adds the flag of a command that prints YAML.
func addSchemaLine(flags *pflag.FlagSet) *bool {
	return flags.Bool("schema", false, "begin with a comment that names the JSON Schema at the node, for editors")
}

// withSchemaLine returns YAML after a line that names its schema at the node. If an editor would not get the schema, since the
// node requires a token, a warning is printed in place of the line. A line of the author stays.
func withSchemaLine(ctx context.Context, io *cli, c *client, schema, text string) (string, error) {
	if strings.HasPrefix(text, schemaLineMark) {
		return text, nil
	}
	stranger, err := newClient(c.node, c.from, "")
	if err != nil {
		return "", err
	}
	raw, err := stranger.request(ctx, http.MethodGet, "/schemas/"+schema, nil, nil, nil)
	if err == nil && !json.Valid(raw) {
		err = errors.New("the answer is not JSON")
	}
	if err != nil {
		_, err = fmt.Fprintf(io.err, "without a schema line: an editor does not get the schema from the node (%s); write it to a file: deadman schema %s\n", sanitize(err.Error()), schema)
		return text, err
	}
	return schemaLineMark + "$schema=" + c.node + "/api/v1/schemas/" + schema + "\n" + text, nil
}

// settingsSchema returns the JSON Schema (2020-12) of a settings file, for editors.
func settingsSchema() ([]byte, error) {
	fields := make(configfile.Table, len(settings))
	for i, s := range settings {
		text := strings.ToUpper(s.usage[:1]) + s.usage[1:] + "."
		if s.preset != "" {
			text += " Default: " + s.preset + "."
		}
		fields[i] = configfile.Field{Name: s.name, Form: s.schema, Text: text}
	}
	return configfile.Schema(fields.Object(), "settings", "Settings of a deadman node")
}

// orAsText is a form with values that may also be text, as in the environment.
func orAsText(form *jsonschema.Schema, pattern string) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{form, configfile.PatternForm(pattern)}}
}
