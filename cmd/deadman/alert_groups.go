package main

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newAlertGroupsCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "groups", Short: "Count all open alerts by rule, severity, entity, status or label",
		Example: `  deadman alert groups
  deadman alert groups --by team --severity critical`,
	}
	by := cmd.Flags().String("by", "rule", "field of the groups: rule, severity, entity, status, key, step, or the name of a label")
	return newReportCmd(io, cmd, "/alerts/groups", []filter{
		byRule, byEntity, byKey, bySeverity, byStatus, byLabel,
	}, func() url.Values { return url.Values{"by": {*by}} }, printAlertGroups)
}

func printAlertGroups(io *cli, groups web.AlertGroups) error {
	if groups.Note != "" {
		fmt.Fprintln(io.err, sanitize(groups.Note))
	}
	if len(groups.Items) == 0 {
		_, err := fmt.Fprintln(io.out, "no open alerts")
		return err
	}
	t := newTable(io.out, io.palette, groups.By, "unacknowledged", "severities", "acknowledged", "oldest")
	for _, g := range groups.Items {
		t.row(groupRow(io, cmp.Or(g.Value, "none"), g.OpenAlertCounts)...)
	}
	if len(groups.Items) > 1 {
		t.row(groupRow(io, "total", groups.Total)...)
	}
	if err := t.fit(terminalWidth(io.out)).end(); err != nil {
		return err
	}
	if groups.Omitted > 0 {
		_, err := fmt.Fprintf(io.err, "%s not listed; their alerts are in the total\n", number(groups.Omitted, "further group"))
		return err
	}
	return nil
}

func groupRow(io *cli, value string, n web.OpenAlertCounts) []cell {
	var parts []string
	for _, severity := range slices.Backward(severities) {
		if count := n.Severities[severity]; count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, severity))
		}
	}
	oldest := ""
	if !n.OldestAt.IsZero() {
		oldest = io.relative(n.OldestAt)
	}
	return []cell{cellOf(value), numberCell(n.Unacknowledged), cellOf(strings.Join(parts, ", ")), numberCell(n.Acknowledged), cellOf(oldest)}
}
