package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func (p *cli) sourceCommand() *cobra.Command {
	cmd := group("source", "See what rules look up in, and try it")
	addURL(cmd.PersistentFlags(), p)
	cmd.AddCommand(
		listing[web.Source]{
			short: "List the sources and how they do on the node that is asked", path: "/sources",
			none:   "there are no sources; serve --sources names a file of them",
			header: []string{"name", "kind", "state", "asked", "round trips", "p99 ms", "waiting", "abandoned", "failing since", "error or warning"},
			row:    sourceRow,
		}.command(p),
		listing[web.Outage]{
			use: "outages", short: "List when what rules ask could not be asked, newest first", path: "/outages",
			filters: []filter{byRule, {parameter: "open", does: "those that are not over", kind: filterFlag}},
			none:    "there was no outage", header: []string{"source", "rule", "from", "until", "looks", "reason"},
			row: outageRow,
		}.command(p),
		&cobra.Command{
			Use: "test NAME", Short: "Try whether the node can reach a source; exit code 3 where it can't",
			Args: exactly("NAME"), RunE: p.testSource,
		},
	)
	return cmd
}

func sourceRow(p *cli, s web.Source) []cell {
	state, why := cellOf(s.State), s.Warning
	switch s.State {
	case "up":
		state = colouredCell(green, s.State)
	case "failing", "down", "trying":
		state, why = colouredCell(red, s.State), cmp.Or(s.Error, s.Warning)
	}
	return []cell{
		colouredCell(bold, s.Name), cellOf(s.Kind), state, sayNumber(s.Asked), sayNumber(s.RoundTrips), cellOf(fmt.Sprintf("%.1f", s.P99)),
		sayNumber(int64(s.Waiting)), sayNumber(int64(s.Abandoned)), p.sometime(s.FailingSince, ""), cellOf(why),
	}
}

func outageRow(p *cli, o web.Outage) []cell {
	until := colouredCell(red, "not over")
	if !o.ClosedAt.IsZero() {
		until = cellOf(web.Relative(o.ClosedAt, p.now()))
	}
	return []cell{colouredCell(bold, o.Source), cellOf(o.Rule), cellOf(web.Relative(o.OpenedAt, p.now())), until, sayNumber(int64(o.Jobs)), cellOf(o.Reason)}
}

func (p *cli) testSource(cmd *cobra.Command, args []string) error {
	c, err := p.client()
	if err != nil {
		return err
	}
	t, raw, err := tell[web.SourceTestResult](cmd.Context(), c, http.MethodPost, "/sources/"+url.PathEscape(args[0])+"/test", nil, nil)
	if err != nil {
		return err
	}
	switch {
	case p.output == asJSON:
		err = writeJSON(p.out, raw)
	case t.Reached:
		_, err = fmt.Fprintf(p.out, "reached: the node can ask %s\n", sanitize(t.Source))
	default:
		_, err = fmt.Fprintf(p.err, "deadman: the node can't reach %s: %s\n", sanitize(t.Source), sanitize(t.Reason))
	}
	if err == nil && !t.Reached {
		return silentError{exitCondition}
	}
	return err
}
