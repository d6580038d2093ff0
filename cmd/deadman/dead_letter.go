package main

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/web"
)

// letterFilters are the filters of dead letters.
var letterFilters = []filter{
	byRule,
	{parameter: "subject", does: "that came on this subject only"},
	{parameter: "reason", does: "that were refused for this reason only, word by word"},
}

func (p *cli) deadLetterCommand() *cobra.Command {
	cmd := group("dead-letter", "The events that could not be taken in: look at them, retry and drop them")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		listing[web.DeadLetter]{
			short: "List dead letters, newest first", path: "/dead-letters", filters: letterFilters,
			none: "no event was refused", header: []string{"id", "refused", "rule", "subject", "stream", "seq", "reason"},
			row: func(p *cli, d web.DeadLetter) []cell {
				return []cell{
					sayNumber(d.ID), cellOf(web.Relative(d.At, p.now())), cellOf(d.Rule), cellOf(d.Subject), cellOf(d.Stream),
					sayNumber(d.Seq), cellOf(d.Reason),
				}
			},
		}.command(p),
		&cobra.Command{Use: "get ID", Short: "Show one dead letter, and the event", Args: exactly("ID"), RunE: p.getDeadLetter},
		p.letterReasonsCommand(),
		p.retryLettersCommand(), p.dropLettersCommand(),
	)
	return cmd
}

func (p *cli) getDeadLetter(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	d, raw, err := get[web.DeadLetter](cmd.Context(), c, "/dead-letters/"+url.PathEscape(args[0]), nil)
	if err != nil {
		return err
	}
	if p.output == asJSON {
		return writeJSON(p.out, raw)
	}
	return p.showDeadLetter(d)
}

func (p *cli) showDeadLetter(d web.DeadLetter) error {
	s := newSheet(p)
	s.line("dead letter", "%d", d.ID)
	s.painted("reason", red, d.Reason)
	if d.Rule != "" {
		s.line("rule", "%s", d.Rule)
	}
	s.instant("refused", d.At)
	if d.Tries > 0 {
		s.line("tried again", "%s", number(d.Tries, "time"))
		s.instant("last tried", d.LastTriedAt)
	}
	s.line("subject", "%s", d.Subject)
	s.line("stream", "%s, message %d", d.Stream, d.Seq)
	s.instant("event of", d.EventAt)
	for _, name := range slices.Sorted(maps.Keys(d.Header)) {
		s.line("header", "%s: %s", name, strings.Join(d.Header[name], ", "))
	}
	if d.BodyBase64 != nil {
		s.line("body", "%q, which is no UTF-8", d.BodyBase64)
	} else {
		s.line("body", "%s", d.Body)
	}
	return s.end()
}
