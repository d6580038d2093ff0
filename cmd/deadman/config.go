package main

import "github.com/spf13/cobra"

func (p *cli) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show the settings that serve would run with, and where each comes from",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := resolve(cmd.Flags(), p.env); err != nil {
				return err
			}
			all, err := choose(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			return p.showSettings(all)
		},
	}
	addSettingsTo(cmd)
	return cmd
}

func (p *cli) showSettings(all []resolvedSetting) error {
	if p.output == asJSON {
		type shown struct {
			Value string `json:"value"`
			From  string `json:"from"`
		}
		out := make(map[string]shown, len(all))
		for _, c := range all {
			out[c.name] = shown{c.shown(), c.origin}
		}
		return writeValue(p.out, out)
	}
	t := newTable(p.out, p.palette, "setting", "value", "from")
	for _, c := range all {
		from := dimCell("%s", c.origin)
		if c.value != c.preset {
			from.colour = normal
		}
		t.row(cellOf(c.name), cellOf(c.shown()), from)
	}
	return t.fit(terminalWidth(p.out)).end()
}
