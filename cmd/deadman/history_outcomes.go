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

func (p *cli) outcomesCommand() *cobra.Command {
	days := false
	cmd := &cobra.Command{Use: "outcomes", Short: "Show how jobs ended over the last day, hour by hour, or the last fortnight", Args: exactly()}
	filters := []filter{byRule, byEntity}
	for _, f := range filters {
		f.add(p, cmd)
	}
	cmd.Flags().BoolVar(&days, "days", false, "the last 14 days, day by day")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{"bucket": {"1h"}}
		if days {
			query.Set("bucket", "1d")
		}
		for _, f := range filters {
			value, err := f.value(p, cmd)
			if err != nil {
				return err
			}
			if value != "" {
				query.Set(f.parameter, value)
			}
		}
		c, err := p.client()
		if err != nil {
			return err
		}
		o, raw, err := get[web.Outcomes](cmd.Context(), c, "/history/outcomes", query)
		if err != nil {
			return err
		}
		if p.output == asJSON {
			return writeJSON(p.out, raw)
		}
		return p.showOutcomes(o)
	}
	return cmd
}

// showOutcomes prints a line for each bucket with ended jobs, then the slowest checks.
func (p *cli) showOutcomes(o web.Outcomes) error {
	if o.CountedAt.IsZero() {
		_, err := fmt.Fprintln(p.out, "it is being counted; ask again in a moment")
		return err
	}
	t := newTable(p.out, p.palette, "from", "ended", "how")
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
		t.row(cellOf(p.bucketFrom(item.From, o.Bucket)), sayNumber(sum), cellOf(howEnded(item.Outcomes)))
	}
	if empty {
		_, err := fmt.Fprintf(p.out, "no job ended since %s\n", p.exact(o.From))
		return err
	}
	if err := t.fit(terminalWidth(p.out)).end(); err != nil {
		return err
	}
	if o.CountedFrom.After(o.From) {
		if _, err := fmt.Fprintf(p.err, "what ended before %s is not counted yet; ask again in a while\n", p.exact(o.CountedFrom)); err != nil {
			return err
		}
	}
	return p.showSlowest(o.Slowest)
}

// bucketFrom formats the start of a bucket. Days are in UTC.
func (p *cli) bucketFrom(from time.Time, bucket float64) string {
	if bucket >= futurejobs.Day.Seconds() {
		return from.UTC().Format("Mon 2006-01-02") + " UTC"
	}
	return from.In(p.zone).Format("Mon 15:04")
}

// howEnded formats outcomes with their counts, largest first.
func howEnded(outcomes map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(outcomes[b], outcomes[a]), cmp.Compare(a, b))
	})
	said := make([]string, len(names))
	for i, name := range names {
		said[i] = fmt.Sprintf("%s %d", checks.Outcome(name), outcomes[name])
	}
	return strings.Join(said, ", ")
}

func (p *cli) showSlowest(looks []web.SlowestLook) error {
	if len(looks) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(p.out); err != nil {
		return err
	}
	t := newTable(p.out, p.palette, "slowest look", "rule", "entity", "key", "looks", "ended")
	for _, l := range looks {
		t.row(cellOf(fmt.Sprintf("%.1f ms", l.Seconds*1000)), cellOf(l.Rule), cellOf(l.Entity), cellOf(l.Key), sayNumber(l.Looks), cellOf(web.Relative(l.EndedAt, p.now())))
	}
	return t.fit(terminalWidth(p.out)).end()
}

// outcomes lists the standard outcomes. Rules may define their own names for resolved jobs.
var outcomes = wordsOf(
	checks.Resolved, checks.Cleared, checks.Exhausted, checks.Cancelled, checks.Restarted, checks.Expired, checks.RuleDeleted,
	checks.Undetermined, checks.GuardTimeout, checks.GuardMaxChecks, checks.GuardHorizon, checks.GuardPast,
)

func (p *cli) historyCommand() *cobra.Command {
	cmd := group("history", "Look at the jobs that ended, and why")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(listing[web.Ended]{
		short: "List ended jobs, newest first", path: "/history", filters: []filter{
			byRule, byEntity, byKey,
			{parameter: "outcome", does: "that ended so only, such as resolved or exhausted", values: outcomes},
			since("ended_after", "after", "ended"), until("ended_before", "before", "ended"),
		},
		none: "no job has ended yet", header: []string{"ended", "rule", "entity", "key", "outcome", "looks", "alerts", "reason"},
		row: func(p *cli, e web.Ended) []cell {
			return []cell{
				cellOf(web.Relative(e.EndedAt, p.now())), cellOf(e.Rule), cellOf(e.Entity), cellOf(e.Key),
				colouredCell(outcomeColour(e.Outcome), string(e.Outcome)),
				sayNumber(e.Checks), sayNumber(len(e.Alerts)), cellOf(e.Reason),
			}
		},
	}.command(p), p.outcomesCommand())
	return cmd
}
