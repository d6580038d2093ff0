package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) versionsCommand() *cobra.Command {
	cmd := listing[web.RuleVersion]{
		use: "versions", short: "List the versions of a rule, newest first", args: []string{"RULE"},
		of:     func(args []string) string { return rulePath(args[0]) + "/versions" },
		none:   "there are no earlier versions",
		header: []string{"version", "saved", "at", "by", "bundle"},
		row: func(p *cli, v web.RuleVersion) []cell {
			return []cell{
				sayNumber(v.Version), cellOf(web.Relative(v.SavedAt, p.now())), cellOf(p.exact(v.SavedAt)), cellOf(v.SavedBy), cellOf(v.Bundle),
			}
		},
	}.command(p)
	cmd.ValidArgsFunction = p.completeRule
	return cmd
}

func (p *cli) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff RULE FROM TO", Short: "Show what changed between two versions of a rule",
		Args: exactly("RULE", "FROM", "TO"), ValidArgsFunction: p.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			d, raw, err := get[web.RuleDiff](cmd.Context(), c, rulePath(args[0])+"/diff", url.Values{"from": {args[1]}, "to": {args[2]}})
			if err != nil {
				return err
			}
			switch {
			case p.output == asJSON:
				return writeJSON(p.out, raw)
			case d.Diff == "":
				_, err := fmt.Fprintln(p.out, "the two versions say the same")
				return err
			}
			return p.showDiff(d.Diff, "")
		},
	}
}
