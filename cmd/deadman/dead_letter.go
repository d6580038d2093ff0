package main

import (
	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *program) deadLetterCommand() *cobra.Command {
	cmd := group("dead-letter", "Look at the events that could not be taken in")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(listing[web.DeadLetter]{
		short: "List dead letters, newest first", path: "/dead-letters", filters: [][2]string{byRule},
		none: "no event was refused", header: []string{"refused", "rule", "subject", "stream", "seq", "reason"},
		row: func(p *program, d web.DeadLetter) []cell {
			return []cell{
				say(web.Relative(d.At, p.now())), say(d.Rule), say(d.Subject), say(d.Stream),
				sayNumber(d.Seq), say(d.Reason),
			}
		},
	}.command(p))
	return cmd
}
