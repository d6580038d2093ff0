package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"deadman/rules/document"

	"github.com/spf13/cobra"

	"deadman/internal/ruletest"
	"deadman/web"
)

func newRuleCmd(io *cli) *cobra.Command {
	cmd := group("rule", "Write, validate, preview and apply rules")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		newRuleNewCmd(io), newRuleLintCmd(io), newRulePreviewCmd(io), newRuleTestCmd(io), newRuleSchemaCmd(),
		newRuleApplyCmd(io), newRuleListCmd(io), newRuleGetCmd(io), newRuleVersionsCmd(io), newRuleDiffCmd(io),
		newRulePauseCmd(io, "pause", "Pause a rule: it creates no new jobs until it is resumed", "paused: rule %s creates no new jobs; pending jobs continue, and with them the alerts of missing heartbeats: deadman mute create suppresses their messages\n"),
		newRuleResumeCmd(io),
		newRuleDeleteCmd(io), newRulePingsCmd(io), newRuleStatsCmd(io), newRuleTicksCmd(io),
	)
	return cmd
}

func newRuleSchemaCmd() *cobra.Command {
	var ofTests bool
	cmd := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of rule files or of their tests, for editors",
		Example: "  deadman rule schema > " + schemaFile + "\n  deadman rule schema --tests > " + testSchemaFile,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			schemaOf := document.Schema
			if ofTests {
				schemaOf = ruletest.Schema
			}
			schema, err := schemaOf()
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), schema)
		},
	}
	cmd.Flags().BoolVar(&ofTests, "tests", false, "print the schema of files of tests")
	return cmd
}

func newRuleListCmd(io *cli) *cobra.Command {
	return listing[web.Rule]{
		short: "List rules, by name", path: "/rules",
		filters: []filter{
			{parameter: "prefix", does: "filter by a prefix of the name"},
			byEntity,
			{parameter: "text", does: "filter by text in the name, description, entity or subjects"},
			{parameter: "state", does: "filter by state: enabled, paused, disabled, schedule_ended, never_reported, unreadable", values: []string{"enabled", "paused", "disabled", "schedule_ended", "never_reported", "unreadable"}},
			{parameter: "bundle", does: "filter by bundle"},
			{parameter: "paused", does: "filter by paused: true or false", values: []string{"true", "false"}},
		},
		none:   "no rules; write a first one with deadman rule new",
		drop:   []string{"by", "bundle", "version", "saved", "entity", "next tick", "subjects"},
		header: []string{"rule", "entity", "version", "state", "pending", "open alerts", "bundle", "saved", "by", "next tick", "subjects"},
		row: func(io *cli, r web.Rule) []cell {
			return []cell{
				cellOf(r.Name), cellOf(r.Entity), numberCell(r.Version), ruleState(r), pendingCell(r), openAlertsCell(r), cellOf(r.Bundle),
				cellOf(io.relative(r.SavedAt)), cellOf(r.SavedBy), nextTickCell(io, r), cellOf(strings.Join(r.Subjects, " ")),
			}
		},
	}.command(io)
}

// ruleState formats the state of a rule.
func ruleState(r web.Rule) cell {
	switch {
	case r.Problem != "":
		return colouredCell(red, "unreadable")
	case !r.PausedAt.IsZero() && !r.Enabled:
		return colouredCell(yellow, "paused, disabled")
	case !r.PausedAt.IsZero():
		return colouredCell(yellow, "paused")
	case !r.Enabled:
		return colouredCell(yellow, "disabled")
	case r.NeverReported:
		return colouredCell(yellow, "never reported")
	}
	return colouredCell(green, "enabled")
}

// pendingCell formats the number of pending jobs of a rule. It is empty until they are counted.
func pendingCell(r web.Rule) cell {
	if r.Jobs == nil {
		return cellOf("")
	}
	return numberCell(r.Jobs.Pending)
}

// openAlertsCell formats the number of jobs with an open alert.
func openAlertsCell(r web.Rule) cell {
	switch {
	case r.Jobs == nil:
		return cellOf("")
	case r.Jobs.OpenAlerts > 0:
		return colouredCell(yellow, fmt.Sprint(r.Jobs.OpenAlerts))
	}
	return dimCell("0")
}

// nextTickCell formats the next tick of a rule's schedule.
func nextTickCell(io *cli, r web.Rule) cell {
	switch {
	case r.ScheduleEnded:
		return colouredCell(dim, "schedule ended")
	case r.NextTickAt.IsZero():
		return cellOf("")
	}
	return cellOf(io.relative(r.NextTickAt))
}

func newRuleGetCmd(io *cli) *cobra.Command {
	var version int32
	var schema *bool
	cmd := &cobra.Command{
		Use: "get RULE", Short: "Print a rule as YAML, or as JSON with -o json", Args: exactly("RULE"), ValidArgsFunction: completeRule(io),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := rulePath(args[0])
			if cmd.Flags().Changed("version") {
				path += "/versions/" + strconv.Itoa(int(version))
			}
			return printRule(io, cmd, path, *schema)
		},
	}
	cmd.Flags().Int32Var(&version, "version", 0, "rule version (default: the newest)")
	schema = addSchemaLine(cmd.Flags())
	return cmd
}

func printRule(io *cli, cmd *cobra.Command, path string, schema bool) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	kind := "application/yaml"
	if io.output == asJSON {
		kind = "application/json"
	}
	raw, err := c.request(cmd.Context(), http.MethodGet, path, nil, nil, http.Header{"Accept": {kind}})
	if err != nil {
		return err
	}
	if io.output == asJSON {
		return writeJSON(io.out, raw)
	}
	text := plainLines(string(raw))
	if schema {
		if text, err = withSchemaLine(cmd.Context(), io, c, "rule", text); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(io.out, text)
	return err
}

func rulePath(name string) string { return "/rules/" + url.PathEscape(name) }

func newRulePauseCmd(io *cli, verb, short, message string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " RULE", Short: short, Args: exactly("RULE"), ValidArgsFunction: completeRule(io),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := io.client()
			if err != nil {
				return err
			}
			raw, err := c.request(cmd.Context(), http.MethodPost, rulePath(args[0])+"/"+verb, nil, nil, nil)
			if err != nil {
				return err
			}
			if io.output == asJSON {
				return writeJSON(io.out, raw)
			}
			_, err = fmt.Fprintf(io.out, message, sanitize(args[0]))
			return err
		},
	}
}

func newRuleDeleteCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete RULE", Short: "Delete a rule and end its jobs", Args: exactly("RULE"), ValidArgsFunction: completeRule(io),
	}
	yes := addYes(cmd.Flags())
	bundle := cmd.Flags().String("bundle", "", "bundle of the rule; required if the rule belongs to one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := io.client()
		if err != nil {
			return err
		}
		if err := io.confirm(*yes, fmt.Sprintf("Delete rule %s and end all its jobs?", args[0])); err != nil {
			return err
		}
		if err := deleteRule(cmd.Context(), c, args[0], *bundle); err != nil {
			return err
		}
		return io.report(map[string]string{"rule": args[0], "outcome": "deleted"}, "deleted: rule %s\n", sanitize(args[0]))
	}
	return cmd
}

// getRule reads a rule from the node.
func getRule(ctx context.Context, c *client, name string) (d document.Document, err error) {
	raw, err := c.request(ctx, http.MethodGet, rulePath(name), nil, nil, http.Header{"Accept": {"application/json"}})
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	return d, err
}

func newRuleVersionsCmd(io *cli) *cobra.Command {
	cmd := listing[web.RuleVersion]{
		use: "versions", short: "List the versions of a rule, newest first", args: []string{"RULE"},
		of:     func(args []string) string { return rulePath(args[0]) + "/versions" },
		none:   "no earlier versions",
		header: []string{"version", "saved", "time", "by", "bundle"},
		row: func(io *cli, v web.RuleVersion) []cell {
			return []cell{
				numberCell(v.Version), cellOf(io.relative(v.SavedAt)), cellOf(io.exact(v.SavedAt)), cellOf(v.SavedBy), cellOf(v.Bundle),
			}
		},
	}.command(io)
	cmd.ValidArgsFunction = completeRule(io)
	return cmd
}

func newRuleDiffCmd(io *cli) *cobra.Command {
	return &cobra.Command{
		Use: "diff RULE FROM TO", Short: "Show the changes between two versions of a rule",
		Args: exactly("RULE", "FROM", "TO"), ValidArgsFunction: completeRule(io),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := io.client()
			if err != nil {
				return err
			}
			d, raw, err := get[web.RuleDiff](cmd.Context(), c, rulePath(args[0])+"/diff", url.Values{"from": {args[1]}, "to": {args[2]}})
			if err != nil {
				return err
			}
			switch {
			case io.output == asJSON:
				return writeJSON(io.out, raw)
			case d.Diff == "":
				_, err := fmt.Fprintln(io.out, "no differences")
				return err
			}
			return printDiff(io, d.Diff, "")
		},
	}
}

// printDiff prints a unified diff, indented.
func printDiff(io *cli, diff, indent string) error {
	for line := range strings.Lines(diff) {
		line = sanitize(strings.TrimSuffix(line, "\n"))
		if _, err := fmt.Fprintf(io.out, "%s%s\n", indent, io.palette.paint(diffColour(line), line)); err != nil {
			return err
		}
	}
	return nil
}

// diffColour returns the color of a line of a unified diff.
func diffColour(line string) colour {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		return bold
	case strings.HasPrefix(line, "@@"):
		return blue
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "+"):
		return green
	}
	return dim
}
