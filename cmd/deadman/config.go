package main

import "github.com/spf13/cobra"

func newConfigCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the effective settings of serve and their sources",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := resolve(cmd.Flags(), io.env); err != nil {
				return err
			}
			all, err := mergeSettings(cmd.Flags(), io.env)
			if err != nil {
				return err
			}
			return printSettings(io, all)
		},
	}
	addSettingsTo(cmd)
	return cmd
}

func printSettings(io *cli, all []resolvedSetting) error {
	if io.output == asJSON {
		type shown struct {
			Value string `json:"value"`
			From  string `json:"from"`
		}
		out := make(map[string]shown, len(all))
		for _, c := range all {
			out[c.name] = shown{shownValue(c), c.origin}
		}
		return writeValue(io.out, out)
	}
	t := newTable(io.out, io.palette, "setting", "value", "source")
	for _, c := range all {
		from := dimCell("%s", c.origin)
		if c.value != c.preset {
			from.colour = normal
		}
		t.row(cellOf(c.name), cellOf(shownValue(c)), from)
	}
	return t.fit(terminalWidth(io.out)).end()
}
