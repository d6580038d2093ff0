package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"deadman/rules"
	"deadman/web"
)

func (p *cli) ruleCommand() *cobra.Command {
	cmd := group("rule", "Write, check, try out and apply rules")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		p.newRuleCommand(), p.lintCommand(), p.previewCommand(), schemaCommand(),
		p.applyCommand(), p.listRulesCommand(), p.getRuleCommand(), p.versionsCommand(), p.diffCommand(),
		p.pauseCommand("pause", "Keep a rule from beginning new waits; applying files does not undo it", "paused: rule %s begins no new waits; those there go on\n"),
		p.pauseCommand("resume", "Let a rule begin new waits again", "resumed: rule %s begins new waits again\n"),
		p.deleteRuleCommand(), p.pingsCommand(),
	)
	return cmd
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of rule files, by which editors complete and check them",
		Example: "  deadman rule schema > " + schemaFile,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := rules.Schema()
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), schema)
		},
	}
}

func (p *cli) listRulesCommand() *cobra.Command {
	return listing[web.Rule]{
		short: "List rules, by name", path: "/rules",
		filters: []filter{
			{parameter: "prefix", does: "those whose names begin so only"},
			byEntity,
			{parameter: "text", does: "those that have this in their name, description, entity or subjects only"},
			{parameter: "state", does: "of this state only", values: []string{"enabled", "paused", "disabled", "over", "unreadable"}},
			{parameter: "bundle", does: "of this set of files only"},
			{parameter: "paused", does: "true: those that are paused only; false: the others only", values: []string{"true", "false"}},
		},
		none:   "there are no rules; deadman rule new writes one to start from",
		header: []string{"rule", "entity", "version", "state", "waiting", "alerting", "bundle", "saved", "by", "next tick", "listens to"},
		row: func(p *cli, r web.Rule) []cell {
			return []cell{
				cellOf(r.Name), cellOf(r.Entity), sayNumber(r.Version), ruleState(r), waiting(r), alerting(r), cellOf(r.Bundle),
				cellOf(web.Relative(r.SavedAt, p.now())), cellOf(r.SavedBy), nextTick(p, r), cellOf(strings.Join(r.Subjects, " ")),
			}
		},
	}.command(p)
}

// ruleState formats the state of a rule.
func ruleState(r web.Rule) cell {
	switch {
	case r.Problem != "":
		return colouredCell(red, "unreadable")
	case !r.PausedAt.IsZero():
		return colouredCell(yellow, "paused")
	case !r.Enabled:
		return colouredCell(yellow, "disabled")
	}
	return colouredCell(green, "enabled")
}

// waiting formats the number of pending jobs of a rule. It is empty until they are counted.
func waiting(r web.Rule) cell {
	if r.Jobs == nil {
		return cellOf("")
	}
	return sayNumber(r.Jobs.Waiting)
}

// alerting formats the number of jobs with an alert.
func alerting(r web.Rule) cell {
	switch {
	case r.Jobs == nil:
		return cellOf("")
	case r.Jobs.Alerting > 0:
		return colouredCell(yellow, fmt.Sprint(r.Jobs.Alerting))
	}
	return dimCell("0")
}

// nextTick formats the next tick of a rule's schedule.
func nextTick(p *cli, r web.Rule) cell {
	switch {
	case r.Over:
		return colouredCell(dim, "over")
	case r.NextTickAt.IsZero():
		return cellOf("")
	}
	return cellOf(web.Relative(r.NextTickAt, p.now()))
}

func (p *cli) getRuleCommand() *cobra.Command {
	var version int32
	cmd := &cobra.Command{
		Use: "get RULE", Short: "Print a rule, as YAML or JSON", Args: exactly("RULE"), ValidArgsFunction: p.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := rulePath(args[0])
			if cmd.Flags().Changed("version") {
				path += "/versions/" + strconv.Itoa(int(version))
			}
			return p.printRule(cmd, path)
		},
	}
	cmd.Flags().Int32Var(&version, "version", 0, "this version in place of the newest")
	return cmd
}

func (p *cli) printRule(cmd *cobra.Command, path string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	kind := "application/yaml"
	if p.output == asJSON {
		kind = "application/json"
	}
	raw, err := c.ask(cmd.Context(), http.MethodGet, path, nil, nil, http.Header{"Accept": {kind}})
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	_, err = fmt.Fprint(p.out, plainLines(string(raw)))
	return err
}

func rulePath(name string) string { return "/rules/" + url.PathEscape(name) }

func (p *cli) pauseCommand(verb, short, said string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " RULE", Short: short, Args: exactly("RULE"), ValidArgsFunction: p.completeRule,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			raw, err := c.ask(cmd.Context(), http.MethodPost, rulePath(args[0])+"/"+verb, nil, nil, nil)
			if err != nil {
				return err
			}
			if p.output == asJSON {
				return writeJSON(p.out, raw)
			}
			_, err = fmt.Fprintf(p.out, said, sanitize(args[0]))
			return err
		},
	}
}

func (p *cli) deleteRuleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete RULE", Short: "Delete a rule, and end its jobs", Args: exactly("RULE"), ValidArgsFunction: p.completeRule,
	}
	yes := addYes(cmd.Flags())
	bundle := cmd.Flags().String("bundle", "", "the set of files that the rule belongs to, if it does")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.client()
		if err != nil {
			return err
		}
		if err := p.confirm(*yes, fmt.Sprintf("delete rule %s, and end all its jobs?", args[0])); err != nil {
			return err
		}
		if err := c.deleteRule(cmd.Context(), args[0], *bundle); err != nil {
			return err
		}
		if p.output == asJSON {
			return writeValue(p.out, map[string]string{"rule": args[0], "outcome": "deleted"})
		}
		_, err = fmt.Fprintf(p.out, "deleted: rule %s decides nothing any more\n", sanitize(args[0]))
		return err
	}
	return cmd
}

// rule reads a rule from the node.
func (c *client) rule(ctx context.Context, name string) (d rules.Document, err error) {
	raw, err := c.ask(ctx, http.MethodGet, rulePath(name), nil, nil, http.Header{"Accept": {"application/json"}})
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	return d, err
}
