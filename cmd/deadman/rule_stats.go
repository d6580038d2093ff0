package main

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"deadman/rules/document"
	"deadman/web"
)

// byWindow selects the window of statistics.
var byWindow = filter{parameter: "window", does: "day, week (7 days) or month (30 days); default: day", values: []string{"day", "week", "month"}}

func newRuleStatsCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats RULE", Short: "Count jobs of a rule resolved in time, late or never, with the time they took",
		Long: "Counts the jobs of a rule that ended in a window: in time (resolved before the first step), late (resolved after it)\n" +
			"or never (ended in another way). Cancelled and restarted jobs are not counted. The window ends with the last counted hour.",
		Example: "  deadman rule stats order-unshipped --window week",
		Args:    exactly("RULE"), ValidArgsFunction: completeRule(io),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := filterQuery(io, cmd, []filter{byWindow})
			if err != nil {
				return err
			}
			return runRuleStats(io, cmd, rulePath(args[0])+"/statistics", query)
		},
	}
	byWindow.add(io, cmd)
	return cmd
}

func runRuleStats(io *cli, cmd *cobra.Command, path string, query url.Values) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	s, raw, err := get[web.RuleStatistics](cmd.Context(), c, path, query)
	if err != nil {
		return err
	}
	return io.write(raw, func() error { return printStatistics(io, s.Statistics) })
}

// printStatistics prints the sums, then a line for each bucket with ended jobs.
func printStatistics(io *cli, s web.Statistics) error {
	if s.To.IsZero() {
		_, err := fmt.Fprintln(io.out, "nothing is counted yet; an hour is counted about five minutes after its end")
		return err
	}
	if s.InTime+s.Late+s.Never == 0 {
		_, err := fmt.Fprintf(io.out, "no jobs are counted from %s to %s; later ones are not counted yet, and the next count is at about %s\n",
			io.exact(s.From), io.exact(s.To), io.exact(s.To.Add(time.Hour+web.CountDelay)))
		return err
	}
	if _, err := fmt.Fprintf(io.out, "jobs ended from %s to %s\nin time %d, late %d, never %d\n", io.exact(s.From), io.exact(s.To), s.InTime, s.Late, s.Never); err != nil {
		return err
	}
	if s.P50 != nil && s.P95 != nil {
		if _, err := fmt.Fprintf(io.out, "time to resolve: p50 %s, p95 %s\n", secondsText(*s.P50), secondsText(*s.P95)); err != nil {
			return err
		}
	}
	if !s.CountedFrom.IsZero() {
		if _, err := fmt.Fprintf(io.err, "jobs that ended before %s are not counted\n", io.exact(s.CountedFrom)); err != nil {
			return err
		}
	}
	items := slices.DeleteFunc(s.Items, func(b web.StatisticsBucket) bool { return b.InTime+b.Late+b.Never == 0 })
	if len(items) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(io.out); err != nil {
		return err
	}
	t := newTable(io.out, io.palette, "from", "in time", "late", "never")
	for _, b := range items {
		t.row(cellOf(b.From.In(io.zone).Format("Mon 2006-01-02 15:04")), numberCell(b.InTime), numberCell(b.Late), numberCell(b.Never))
	}
	return t.end()
}

// secondsText formats seconds as a duration, as rules have it.
func secondsText(seconds float64) string {
	return document.Duration(seconds * float64(time.Second)).String()
}
