package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"deadman/rules/document"
	"deadman/web"
)

func newRetentionCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "retention", Short: "Count what retention will delete, and delete nothing",
		Long: `Counts the ended jobs, applied ticks, alerts and dead letters that retention deletes, by rule and
outcome, with the time of the oldest: now, or at a given time, of the rows that exist now. With a
period, the count is of a node with that setting; rules with a period of their own (keep) keep it.`,
		Example: `  deadman retention --at +7d
  deadman retention --keep-history 30d --rule order-unshipped`,
	}
	addURL(cmd.Flags(), io)
	return newReportCmd(io, cmd, "/retention", []filter{
		byRule,
		{parameter: "at", does: "time of the deletion (15:04, 2026-01-31T15:04:05Z, +7d); default: now", kind: filterInstant},
		{parameter: "keep_history", does: "period of history in place of the setting, such as 30d"},
		{parameter: "keep_alerts", does: "period of alerts in place of the setting"},
		{parameter: "keep_dead_letters", does: "period of dead letters in place of the setting"},
	}, func() url.Values { return nil }, printRetention)
}

// printRetention prints a line for each rule, kind and outcome, then the sums.
func printRetention(io *cli, r web.RetentionReport) error {
	if len(r.Items) > 0 {
		t := newTable(io.out, io.palette, "rule", "kind", "outcome", "rows", "oldest")
		for _, c := range r.Items {
			t.row(cellOf(c.Rule), cellOf(strings.ReplaceAll(c.Kind, "_", " ")), cellOf(c.Outcome), numberCell(c.Rows), cellOf(io.exact(c.Oldest)))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	period := func(seconds float64) string { return document.Duration(seconds * 1e9).String() }
	_, err := fmt.Fprintf(io.out, "to delete at %s: %s, %s, %s, %s\nkept without keep of a rule: history %s, alerts %s, dead letters %s\n", io.exact(r.At),
		number(int(r.History), "ended job"), number(int(r.Alerts), "alert"), number(int(r.DeadLetters), "dead letter"), number(int(r.Ticks), "applied tick"),
		period(r.KeepHistory), period(r.KeepAlerts), period(r.KeepDeadLetters))
	return err
}
