package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// cli is one run of the program with its input, output and environment.
type cli struct {
	in       io.Reader
	out, err io.Writer
	env      []string // as in os.Environ
	now      func() time.Time
	zone     *time.Location // the user's time zone
	palette  colors         // colors of out
	output   format
	url      string // value of --url
}

func newProgram(in io.Reader, out, err io.Writer, env []string) *cli {
	p := &cli{in: in, out: out, err: err, env: env, now: time.Now, zone: time.Local, output: asText}
	p.palette = colors{on: isTerminal(out) && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"}
	return p
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// getenv returns a variable of the program's environment, or an empty string.
func (p *cli) getenv(name string) string {
	for _, pair := range p.env {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// run executes the command line and returns the exit code.
func (p *cli) run(ctx context.Context, args []string) int {
	root := p.command()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	err := root.ExecuteContext(ctx)
	var said silentError
	if err != nil && !errors.As(err, &said) {
		fmt.Fprintf(p.err, "deadman: %s\n", plainLines(err.Error()))
	}
	return exitCode(err)
}

func (p *cli) command() *cobra.Command {
	root := group("deadman", "Tells people when something has not happened")
	root.Version = version
	root.SetVersionTemplate("deadman {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v; see %s --help", err, cmd.CommandPath())
	})
	root.PersistentFlags().VarP(&p.output, "output", "o", "text or json")
	complete(root, "output", completeWords(string(asText), string(asJSON)))
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		p.serveCommand(), p.configCommand(), p.demoCommand(), p.jobCommand(), p.explainCommand(), p.alertCommand(),
		p.eventCommand(), p.historyCommand(), p.deadLetterCommand(), p.ruleCommand(),
		p.channelCommand(), p.sourceCommand(), p.muteCommand(), p.handlerCommand(), p.tokenCommand(), p.sessionCommand(), p.quotaCommand(), p.migrateCommand(), p.benchCommand(), p.versionCommand(),
	)
	return root
}

// group returns a command that only has subcommands.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return noCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.HasParent() {
				return cmd.Help()
			}
			var verbs []string
			for _, verb := range cmd.Commands() {
				verbs = append(verbs, verb.Name())
			}
			return usage("%s takes a command: %s; see %s --help", cmd.CommandPath(), strings.Join(verbs, ", "), cmd.CommandPath())
		},
	}
}

func noCommand(cmd *cobra.Command, name string) error {
	hint := "see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean " + cmd.CommandPath() + " " + near[0] + "?"
	}
	return usage("%s has no command %q; %s", cmd.CommandPath(), name, hint)
}

// helpCommand replaces cobra's help command, because cobra's does not fail for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 {
				return noCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			of.InitDefaultVersionFlag()
			return of.Help()
		},
	}
}

// exactly requires one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usage("%s takes %s; it got %s", cmd.CommandPath(), list(names), number(len(args), "argument"))
		}
		return nil
	}
}

func list(names []string) string {
	if len(names) == 0 {
		return "no arguments"
	}
	return strings.Join(names, " ")
}

// Log formats.
const (
	logAuto = "auto" // colored lines on a terminal, text elsewhere
	logText = "text"
	logJSON = "json"
)

func newLog(out io.Writer, colours bool, r serveConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: r.level}
	switch {
	case r.format == logJSON:
		return slog.New(slog.NewJSONHandler(out, options))
	case r.format == logAuto && isTerminal(out):
		return slog.New(tint.NewTextHandler(out, &tint.Options{Level: r.level, TimeFormat: time.TimeOnly, NoColor: !colours}))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

// version is set by the linker.
var version = "dev"

func (p *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if p.output == asJSON {
				return writeValue(p.out, map[string]string{
					"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(p.out, "deadman %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
