package main

import (
	"github.com/spf13/cobra"

	"deadman/checks"
	"deadman/web"
)

// outcomes are those that every rule may have; a rule gives names of its own to having
// happened.
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
