package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"deadman/server"
)

func newServeCmd(io *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a node",
		Long: `Runs a node until SIGTERM or Ctrl-C; a second signal stops it immediately. SIGHUP reloads the
files of webhooks, notification channels, logins and sources, and applies the folder of rules; an
invalid file is logged, shown by /readyz, and ignored. The file of calendars is read at startup only.

Without settings the node is embedded: SQLite in a data folder, a NATS server in the process, HTTP
and NATS on loopback. The order of settings is: flag, environment variable DEADMAN_<NAME>, file of
--config, default. deadman config shows the effective settings.

On loopback and without a public URL on another host, the HTTP API requires no token until the
first token is created: every process on the machine has full access. In all other cases a token
is required; if no token has full access, the node creates one and prints it once. NATS clients
log in as one of the users in the folder nats-users of the data folder.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := resolve(cmd.Flags(), io.env)
			if err != nil {
				return err
			}
			if err := r.check(); err != nil {
				return usageError{err}
			}
			r.Traces = tracesByEnv(io.getenv)
			log := newLog(io.err, io.getenv("NO_COLOR") == "", r)
			slog.SetDefault(log)
			r.Log, r.Version, r.Env, r.Schemas = log, version, io.getenv, ownSchemas
			r.FirstToken, r.MemoryLimit = func(secret, login string) { printFirstToken(io, secret, login) }, memoryLimit()
			r.Ready = func(at server.Endpoints) {
				if r.format != logJSON {
					printWelcome(io, at)
				}
				notifySystemd(log, daemon.SdNotifyReady+"\nSTATUS=serving "+at.HTTP)
			}
			ctx, end := context.WithCancel(cmd.Context())
			notified := make(chan struct{})
			context.AfterFunc(ctx, func() {
				defer close(notified)
				notifySystemd(log, daemon.SdNotifyStopping)
			})
			defer func() {
				end()
				<-notified // a node may stop faster than its notification is sent
			}()
			hangUps, stop := reloadSignals()
			defer stop()
			r.Reload = hangUps
			return server.Run(ctx, r.Config)
		},
	}
	addSettingsTo(cmd)
	return cmd
}

// tracesByEnv reports whether the variables of OpenTelemetry name a collector for traces.
func tracesByEnv(getenv func(string) string) bool {
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" &&
		getenv("OTEL_TRACES_EXPORTER") != "none" && !strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true")
}

// notifySystemd sends a state to systemd, if systemd started this process with Type=notify.
func notifySystemd(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Error("systemd is not notified, and may stop the unit after its TimeoutStartSec", "state", state, "err", err)
	}
}

// reloadSignals returns a channel that receives a value for every SIGHUP until stop is called.
func reloadSignals() (reloads <-chan struct{}, stop func()) {
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

// printFirstToken prints the node's first token. This is the only time it is shown, and access requires it, so every log
// format prints it.
func printFirstToken(io *cli, secret, login string) {
	fmt.Fprintf(io.out, `
  This node requires tokens, and no token has full access. It created one.
  Save the token now: it is not shown again.

    token  %s
    login  %s

  Create tokens with fewer scopes with deadman token create. If this one is lost, see "A lost token" in
  docs/operations/access.md.
`, io.palette.paint(green, sanitize(secret)), sanitize(login))
}

// printWelcome prints the node's addresses and the next steps.
func printWelcome(io *cli, at server.Endpoints) {
	self := os.Args[0]
	fmt.Fprintf(io.out, `
  %s %s

    UI    %s/
    API   %s/api/v1, documented at %s/docs/api
    NATS  %s%s
%s
  In a second terminal:

    %s        sends sample orders, some never shipped
    %s  prints alerts as they are raised

`,
		io.palette.paint(bold, "deadman"), version, at.HTTP, at.HTTP, at.HTTP, redact(at.NATS), natsUsers(at), accessNote(at),
		io.palette.paint(green, self+" demo"), io.palette.paint(green, self+" alert tail"))
}

// natsUsers returns the folder with the credentials of NATS clients, as part of a sentence.
func natsUsers(at server.Endpoints) string {
	if at.NATSUsers == "" {
		return ""
	}
	return ", users in " + sanitize(at.NATSUsers)
}

// accessNote returns a note if the node requires no token.
func accessNote(at server.Endpoints) string {
	if !at.Open {
		return ""
	}
	return "\n  The HTTP API requires no token: every client that reaches it has full access (docs/operations/access.md).\n"
}

// Log formats.
const (
	logAuto = "auto" // colored lines on a terminal, text elsewhere
	logText = "text"
	logJSON = "json"
)

// newLog returns the log of a node. Each line names the node, its version and the component; on a terminal none does, since one
// node writes there.
func newLog(out io.Writer, colours bool, r serveConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: r.level}
	var handler slog.Handler = slog.NewTextHandler(out, options)
	switch {
	case r.format == logAuto && isTerminal(out):
		return slog.New(tint.NewTextHandler(out, &tint.Options{Level: r.level, TimeFormat: time.TimeOnly, NoColor: !colours, ReplaceAttr: withoutComponent}))
	case r.format == logJSON:
		handler = slog.NewJSONHandler(out, options)
	}
	return slog.New(handler).With("node", server.NodeName(), "version", version)
}

// withoutComponent removes the component of a line.
func withoutComponent(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == "component" {
		return slog.Attr{}
	}
	return attr
}
