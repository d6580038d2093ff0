package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"deadman/web"
)

func newSourceCmd(io *cli) *cobra.Command {
	cmd := group("source", "List and test lookup sources")
	addURL(cmd.PersistentFlags(), io)
	cmd.AddCommand(
		listing[web.Source]{
			short: "List sources and their state on the queried node", path: "/sources",
			none:   "no sources; configure them in the file of deadman serve --sources",
			drop:   []string{"abandoned", "queued", "keys", "queries", "p99 ms", "kind"},
			header: []string{"name", "kind", "state", "keys", "queries", "p99 ms", "queued", "abandoned", "failing since", "error or warning"},
			row:    sourceRow,
		}.command(io),
		listing[web.Outage]{
			use: "outages", short: "List outages of sources and handlers, newest first", path: "/outages",
			filters: []filter{byRule, {parameter: "open", does: "only ongoing outages", kind: filterFlag}},
			none:    "no outages", header: []string{"source", "rule", "start", "end", "failed checks", "reason"},
			row: outageRow,
		}.command(io),
		&cobra.Command{
			Use: "test NAME", Short: "Test the connection of the node to a source; exit code 3 if it fails",
			Args: exactly("NAME"), RunE: io.with(testSource),
		},
	)
	return cmd
}

func sourceRow(io *cli, s web.Source) []cell {
	state, why := cellOf(s.State), s.Warning
	switch s.State {
	case "up":
		state = colouredCell(green, s.State)
	case "failing", "down", "probing":
		state, why = colouredCell(red, s.State), cmp.Or(s.Error, s.Warning)
	}
	return []cell{
		colouredCell(bold, s.Name), cellOf(s.Kind), state, numberCell(s.Keys), numberCell(s.Queries), cellOf(fmt.Sprintf("%.1f", s.P99)),
		numberCell(int64(s.Queued)), numberCell(int64(s.Abandoned)), relativeCell(io, s.FailingSince, ""), cellOf(why),
	}
}

func outageRow(io *cli, o web.Outage) []cell {
	until := colouredCell(red, "ongoing")
	if !o.ClosedAt.IsZero() {
		until = cellOf(io.relative(o.ClosedAt))
	}
	return []cell{colouredCell(bold, o.Source), cellOf(o.Rule), cellOf(io.relative(o.OpenedAt)), until, numberCell(int64(o.FailedChecks)), cellOf(o.Reason)}
}

func testSource(io *cli, cmd *cobra.Command, args []string) error {
	c, err := io.client()
	if err != nil {
		return err
	}
	t, raw, err := call[web.SourceTestResult](cmd.Context(), c, http.MethodPost, "/sources/"+url.PathEscape(args[0])+"/test", nil, nil)
	if err != nil {
		return err
	}
	switch {
	case io.output == asJSON:
		err = writeJSON(io.out, raw)
	case t.Reachable:
		_, err = fmt.Fprintf(io.out, "connected: source %s\n", sanitize(t.Source))
	default:
		_, err = fmt.Fprintf(io.err, "deadman: connecting to source %s failed: %s\n", sanitize(t.Source), sanitize(t.Reason))
	}
	if err == nil && !t.Reachable {
		return unmetTest.err()
	}
	return err
}
