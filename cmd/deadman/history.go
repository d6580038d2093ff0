package main

import (
	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *program) historyCommand() *cobra.Command {
	cmd := group("history", "Look at the jobs that ended, and why")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(listing[web.Ended]{
		short: "List ended jobs, newest first", path: "/history", filters: [][2]string{byRule, byEntity, byKey},
		none: "no job has ended yet", header: []string{"ended", "rule", "entity", "key", "outcome", "looks", "alerts", "reason"},
		row: func(p *program, e web.Ended) []cell {
			return []cell{
				say(web.Relative(e.EndedAt, p.now())), say(e.Rule), say(e.Entity), say(e.Key),
				sayIn(outcomeColour(e.Outcome), string(e.Outcome)),
				sayNumber(e.Checks), sayNumber(len(e.Alerts)), say(e.Reason),
			}
		},
	}.command(p))
	return cmd
}
