package main

import (
	"github.com/spf13/cobra"

	"deadman/handlers"
)

func handlerCommand() *cobra.Command {
	cmd := group("handler", "Write handlers in any language")
	cmd.AddCommand(&cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of what a handler is asked, and of what it answers",
		Example: "  deadman handler schema > handler.schema.json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := handlers.Schema()
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), schema)
		},
	})
	return cmd
}
