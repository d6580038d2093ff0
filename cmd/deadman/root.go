package main

import (
	_ "embed" // licenses
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newRootCmd(io *cli) *cobra.Command {
	root := group("deadman", "Raises alerts for expected events that do not happen")
	root.Long = `deadman raises an alert when an expected event does not happen in time.

Start a node with deadman serve, then run deadman demo in a second terminal.`
	root.Version = version
	root.SetVersionTemplate("deadman {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().VarP(&io.output, "output", "o", "output format: text or json")
	complete(root, "output", completeOutput)
	root.PersistentPreRunE = checkOutput(io)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetHelpCommand(newHelpCmd())
	addGroup(root, "node", "Run a node:", newServeCmd(io), newStatusCmd(io), newConfigCmd(io), newMigrateCmd(io), newDoctorCmd(io), newBackupCmd(io), newRestoreCmd(io), newDemoCmd(io), newBenchCmd(io))
	addGroup(root, "rules", "Rules and events:", newRuleCmd(io), newCalendarCmd(io), newScheduleCmd(io), newReplayCmd(io), newEventCmd(io), newDeadLetterCmd(io), newSourceCmd(io), newHandlerCmd(io), newSchemaCmd())
	addGroup(root, "jobs", "Jobs and alerts:", newJobCmd(io), newHistoryCmd(io), newHeartbeatCmd(io), newExplainCmd(io), newAlertCmd(io), newMuteCmd(io), newChannelCmd(io), newForgetCmd(io), newRetentionCmd(io))
	addGroup(root, "access", "Access:", newTokenCmd(io), newSessionCmd(io), newQuotaCmd(io))
	root.AddCommand(newVersionCmd(io), newManCmd(io), newExitCodesTopic())
	return root
}

// addGroup adds commands under a heading of the help.
func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	root.AddCommand(commands...)
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
			return usage("%s requires a command: %s; see %s --help", commandName(cmd), strings.Join(verbs, ", "), cmd.CommandPath())
		},
	}
}

// commandName returns the command for an error, without the name of the program: it precedes all errors.
func commandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

func noCommand(cmd *cobra.Command, name string) error {
	hint := "see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		slices.SortStableFunc(near, func(a, b string) int { return distance(name, a) - distance(name, b) })
		hint = "did you mean " + cmd.CommandPath() + " " + near[0] + "?"
	}
	if cmd.HasParent() {
		name = commandName(cmd) + " " + name
	}
	return usage("unknown command %q; %s", name, hint)
}

// newHelpCmd replaces cobra's help command, because cobra's does not fail for an unknown command.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help of a command",
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
			return usage("%s requires %s; got %s", commandName(cmd), joinNames(names), number(len(args), "argument"))
		}
		return nil
	}
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "no arguments"
	}
	return strings.Join(names, " ")
}

// version is set by the linker.
var version = "dev"

func newVersionCmd(io *cli) *cobra.Command {
	var showLicenses bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, or the licenses of the software in the binary", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if showLicenses {
				_, err := io.out.Write(licenses)
				return err
			}
			if io.output == asJSON {
				return writeValue(io.out, map[string]string{
					"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintf(io.out, "deadman %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	cmd.Flags().BoolVar(&showLicenses, "licenses", false, "print the licenses and notices of third-party software")
	return cmd
}

// licenses has the licenses of the third-party software in the binary. internal/tools/licenses writes it.
//
//go:embed licenses.txt
var licenses []byte
