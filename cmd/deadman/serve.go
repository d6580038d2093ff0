package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"deadman"
)

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a node",
		Long: `Runs a node until it is told to stop (SIGTERM or Ctrl-C; a second one ends it at once).

With nothing set it is embedded: SQLite in a data folder, a NATS server in the process,
HTTP and NATS on loopback. A setting is taken from its flag, else from DEADMAN_<NAME>, else
from the file that --config names, else from its default; deadman config shows the result.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := resolve(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			log := newLog(p.err, p.getenv("NO_COLOR") == "", r)
			slog.SetDefault(log)
			r.Log, r.Version = log, version
			if r.format != logJSON {
				r.Ready = p.welcome
			}
			return deadman.Serve(cmd.Context(), r.Config)
		},
	}
	addSettings(cmd.Flags())
	return cmd
}

// welcome says where the node is and what to do next.
func (p *program) welcome(at deadman.Endpoints) {
	self := os.Args[0]
	fmt.Fprintf(p.out, `
  %s %s

    page  %s/
    API   %s/api/v1
    NATS  %s

  In a second terminal:

    %s        plays orders, of which some are never shipped
    %s  shows alerts as they come

`,
		p.palette.paint(bold, "deadman"), version, at.HTTP, at.HTTP, redact(at.NATS),
		p.palette.paint(green, self+" demo"), p.palette.paint(green, self+" alert tail"))
}
