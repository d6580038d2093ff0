package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/web"
)

func newHistoryCmd(io *cli) *cobra.Command {
	cmd := group("history", "List and export ended jobs, and count their outcomes")
	addURL(cmd.PersistentFlags(), io)
	ended := listing[web.EndedJob]{
		short: "List ended jobs, newest first", path: "/history", filters: []filter{
			byRule, byEntity, byKey,
			{parameter: "outcome", does: "filter by outcome, such as resolved or exhausted", values: wordsOf(checks.Outcomes()...)},
			since("ended_after", "after", "ended"), until("ended_before", "before", "ended"),
		},
		none: "no ended jobs", drop: []string{"checks", "alerts", "entity", "rule"}, header: []string{"ended", "rule", "entity", "key", "outcome", "checks", "alerts", "reason"},
		row: func(io *cli, e web.EndedJob) []cell {
			return []cell{
				cellOf(io.relative(e.EndedAt)), cellOf(e.Rule), cellOf(e.Entity), cellOf(e.Key),
				colouredCell(outcomeColour(e.Outcome), outcomeText(e)),
				numberCell(e.CheckAttempts), numberCell(len(e.Alerts)), cellOf(e.Reason),
			}
		},
	}
	cmd.AddCommand(ended.command(io), export[web.EndedJob, endedRow]{ended, "ended jobs", newEndedRow, keptHistory}.command(io), newHistoryOutcomesCmd(io), newHistoryStatsCmd(io))
	return cmd
}

// outcomeText returns the outcome of a job as the pages show it: resolved late, if an alert was raised before.
func outcomeText(e web.EndedJob) string {
	if e.IsLate() {
		return string(e.Outcome) + " late"
	}
	return string(e.Outcome)
}

func newHistoryStatsCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "stats", Short: "Count jobs resolved in time, late or never, with the time they took"}
	return newReportCmd(io, cmd, "/history/statistics", []filter{byRule, byEntity, byWindow}, func() url.Values { return nil }, printStatistics)
}

func newHistoryOutcomesCmd(io *cli) *cobra.Command {
	days := false
	cmd := &cobra.Command{Use: "outcomes", Short: "Count outcomes per hour of the last day, or per day of the last 14"}
	cmd.Flags().BoolVar(&days, "days", false, "count per day of the last 14 days")
	bucket := func() url.Values {
		if days {
			return url.Values{"bucket": {"1d"}}
		}
		return url.Values{"bucket": {"1h"}}
	}
	return newReportCmd(io, cmd, "/history/outcomes", []filter{byRule, byEntity}, bucket, printOutcomes)
}

// printOutcomes prints a line for each bucket with ended jobs, then the slowest checks.
func printOutcomes(io *cli, o web.Outcomes) error {
	if o.CountedAt.IsZero() {
		_, err := fmt.Fprintln(io.out, "outcomes are being counted; try again in a moment")
		return err
	}
	t := newTable(io.out, io.palette, "from", "ended", "outcomes")
	empty := true
	for _, item := range o.Items {
		if len(item.Outcomes) == 0 {
			continue
		}
		empty = false
		sum := int64(0)
		for _, n := range item.Outcomes {
			sum += n
		}
		t.row(cellOf(formatBucket(io, item.From, o.Bucket)), numberCell(sum), cellOf(howEnded(item.Outcomes)))
	}
	if empty {
		_, err := fmt.Fprintf(io.out, "no job ended since %s\n", io.exact(o.From))
		return err
	}
	if err := t.fit(terminalWidth(io.out)).end(); err != nil {
		return err
	}
	if o.CountedFrom.After(o.From) {
		if _, err := fmt.Fprintf(io.err, "jobs that ended before %s are not counted yet; try again later\n", io.exact(o.CountedFrom)); err != nil {
			return err
		}
	}
	return printSlowestChecks(io, o.SlowestChecks)
}

// formatBucket formats the start of a bucket. Days are in UTC.
func formatBucket(io *cli, from time.Time, bucket float64) string {
	if bucket >= futurejobs.Day.Seconds() {
		return from.UTC().Format("Mon 2006-01-02") + " UTC"
	}
	return from.In(io.zone).Format("Mon 15:04")
}

// howEnded formats outcomes with their counts, largest first.
func howEnded(outcomes map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(outcomes[b], outcomes[a]), cmp.Compare(a, b))
	})
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%s %d", checks.Outcome(name), outcomes[name])
	}
	return strings.Join(texts, ", ")
}

func printSlowestChecks(io *cli, checks []web.SlowestCheck) error {
	if len(checks) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(io.out); err != nil {
		return err
	}
	t := newTable(io.out, io.palette, "slowest check", "rule", "entity", "key", "checks", "ended")
	for _, l := range checks {
		t.row(cellOf(fmt.Sprintf("%.1f ms", l.Seconds*1000)), cellOf(l.Rule), cellOf(l.Entity), cellOf(l.Key), numberCell(l.Checks), cellOf(io.relative(l.EndedAt)))
	}
	return t.fit(terminalWidth(io.out)).end()
}
