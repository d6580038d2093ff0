package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"deadman/server"
)

func (p *cli) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a node",
		Long: `Runs a node until it is told to stop (SIGTERM or Ctrl-C; a second one ends it at once).
SIGHUP has it read the files of hooks, channels and logins again; a bad one is refused, and said.
The files of calendars and sources are read at the start only.

With nothing set it is embedded: SQLite in a data folder, a NATS server in the process,
HTTP and NATS on loopback. A setting is taken from its flag, else from DEADMAN_<NAME>, else
from the file that --config names, else from its default; deadman config shows the result.

On loopback, without a public URL elsewhere, it is open until the first token: whoever is on
the machine may do everything over HTTP, without a token. Anywhere else, and for good once there
was a token, it takes tokens; where none may do everything it makes one and prints it, once.
Clients of NATS log in as one of the users in the folder nats-users of the data folder.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := resolve(cmd.Flags(), p.env)
			if err != nil {
				return err
			}
			log := newLog(p.err, p.getenv("NO_COLOR") == "", r)
			slog.SetDefault(log)
			r.Log, r.Version, r.Env = log, version, p.getenv
			r.FirstToken, r.MemoryLimit = p.firstToken, memoryLimit()
			if r.format != logJSON {
				r.Ready = p.welcome
			}
			hangUps, stop := reloadSignals()
			defer stop()
			r.Reload = hangUps
			return server.Run(cmd.Context(), r.Config)
		},
	}
	addSettingsTo(cmd)
	return cmd
}

// reloadSignals returns a channel that receives a value for every SIGHUP until stop is called.
func reloadSignals() (told <-chan struct{}, stop func()) {
	signals, out, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(out)
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case out <- struct{}{}:
			case <-done:
				return
			}
		}
	}()
	return out, func() {
		signal.Stop(signals)
		close(done)
	}
}

// firstToken prints the node's first token. This is the only time it is shown, and access requires it, so every log
// format prints it.
func (p *cli) firstToken(secret, login string) {
	fmt.Fprintf(p.out, `
  This node answers to tokens only, and none may do everything. It has made one that does.
  Keep it now: it is not shown again.

    token  %s
    login  %s

  With it, deadman token create makes others that may do less.
`, p.palette.paint(green, sanitize(secret)), sanitize(login))
}

// welcome prints the node's addresses and the next steps.
func (p *cli) welcome(at server.Endpoints) {
	self := os.Args[0]
	fmt.Fprintf(p.out, `
  %s %s

    page  %s/
    API   %s/api/v1, described at %s/docs
    NATS  %s%s
%s
  In a second terminal:

    %s        plays orders, of which some are never shipped
    %s  shows alerts as they come

`,
		p.palette.paint(bold, "deadman"), version, at.HTTP, at.HTTP, at.HTTP, redact(at.NATS), natsUsers(at), accessNote(at),
		p.palette.paint(green, self+" demo"), p.palette.paint(green, self+" alert tail"))
}

// natsUsers returns the folder with the credentials of NATS clients, as part of a sentence.
func natsUsers(at server.Endpoints) string {
	if at.NATSUsers == "" {
		return ""
	}
	return ", for the users in " + sanitize(at.NATSUsers)
}

// accessNote returns a note if the node requires no token.
func accessNote(at server.Endpoints) string {
	if !at.Open {
		return ""
	}
	return "\n  It is open: whoever reaches it may do everything over HTTP, without a token (docs/operations/access.md).\n"
}
