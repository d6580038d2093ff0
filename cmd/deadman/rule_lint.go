package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"deadman/rules/document"

	"github.com/spf13/cobra"

	"deadman/internal/calendars"
	"deadman/rules"
	"deadman/server"
)

func newRuleLintCmd(io *cli) *cobra.Command {
	var calendarFile, sourceFile string
	var more []string
	cmd := &cobra.Command{
		Use: "lint FILE|DIR|-...", Short: "Validate rule files; exit code 3 if there are errors",
		Long: `Validates rule files without a node and prints all errors with their positions and remedies.

--calendars also validates the names of calendars. --sources also validates lookups against their
sources, without running them.`,
		ValidArgsFunction: completeFiles(ruleEndings...),
		RunE: func(cmd *cobra.Command, args []string) error {
			args = append(args, more...)
			if len(args) == 0 {
				return usage("%s requires files or folders", commandName(cmd))
			}
			return lintRules(cmd.Context(), io, args, calendarFile, sourceFile)
		},
	}
	cmd.Flags().StringArrayVarP(&more, "file", "f", nil, "file or folder of rules, like an argument; can be repeated")
	complete(cmd, "file", completeFiles(ruleEndings...))
	addCalendars(cmd, &calendarFile)
	textFlagVar(cmd.Flags(), &sourceFile, "sources", "file", "", "sources file, as for serve")
	complete(cmd, "sources", completeFiles("yaml", "yml"))
	return cmd
}

func addCalendars(cmd *cobra.Command, file *string) {
	textFlagVar(cmd.Flags(), file, "calendars", "file", "", "calendars file, as for serve")
	complete(cmd, "calendars", completeFiles("yaml", "yml"))
}

func lintRules(ctx context.Context, io *cli, args []string, calendarFile, sourceFile string) error {
	known, err := readCalendars(calendarFile)
	if err != nil {
		return err
	}
	files, err := ruleFiles(args)
	if err != nil {
		return err
	}
	check, closeSources, err := checkLookups(ctx, io, known, sourceFile)
	if err != nil {
		return err
	}
	defer closeSources()
	var f findings
	all, found, err := parseChecking(io, files, known, func(data []byte, file string) error {
		warnings, err := check(data, file)
		f.Warnings = append(f.Warnings, warnings...)
		return err
	})
	if err != nil {
		return err
	}
	f.Rules, f.Files, f.Problems = len(all), len(files), found
	if known == nil {
		f.Unchecked = calendarsOf(all)
	}
	if sourceFile == "" {
		f.Warnings = unverifiedLookups(all)
	}
	for _, r := range all {
		for _, warning := range slices.Concat(rules.IsOver(r.Document, io.now()), rules.Cautions(r.Document)) {
			f.Warnings = append(f.Warnings, r.Name+": "+warning)
		}
	}
	if err := printFindings(io, f); err != nil {
		return err
	}
	if len(found) > 0 {
		return unmetRules.err()
	}
	return nil
}

// checkLookups returns a check of a file's lookups against the sources in another file. If that is empty, the check
// does nothing.
func checkLookups(ctx context.Context, io *cli, known calendars.Set, sourceFile string) (check func(data []byte, file string) ([]string, error), closeSources func(), err error) {
	if sourceFile == "" {
		return func([]byte, string) ([]string, error) { return nil, nil }, func() {}, nil
	}
	sources, closeSources, err := server.OpenSources(sourceFile, io.getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("sources: %w", err)
	}
	registry := rules.Registry{Calendars: known, Sources: sources} // verification needs no store
	return func(data []byte, file string) ([]string, error) { return registry.VerifyText(ctx, data, file) }, closeSources, nil
}

// findings is the result of lint.
type findings struct {
	Rules     int               `json:"rules"`
	Files     int               `json:"files"`
	Problems  document.Problems `json:"problems"`
	Unchecked []string          `json:"unchecked_calendars,omitempty"` // unknown calendars
	Warnings  []string          `json:"warnings,omitempty"`            // skipped verifications, with reasons
}

// unverifiedLookups returns warnings about rules with an unverified lookup.
func unverifiedLookups(all []fileRule) (warnings []string) {
	for _, r := range all {
		if source := r.Lookup.SourceName(); source != "" {
			warnings = append(warnings, fmt.Sprintf(
				"%s: the lookup was not validated against source %s; give the sources file with --sources, or use rule apply", r.Name, source))
		}
	}
	return warnings
}

// calendarsOf returns the sorted names of the shared calendars that rules use.
func calendarsOf(all []fileRule) []string {
	var names []string
	for _, rule := range all {
		names = append(names, rule.CalendarNames()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func printProblems(io *cli, found document.Problems, ruleCount, fileCount int) error {
	return printFindings(io, findings{Rules: ruleCount, Files: fileCount, Problems: found})
}

func printFindings(io *cli, f findings) error {
	if io.output == asJSON {
		return writeValue(io.out, f)
	}
	for _, problem := range f.Problems {
		if _, err := fmt.Fprintln(io.out, sanitize(problem.Error())); err != nil {
			return err
		}
	}
	for _, warning := range f.Warnings {
		if _, err := fmt.Fprintf(io.out, "%s %s\n", io.palette.paint(yellow, "warning:"), sanitize(warning)); err != nil {
			return err
		}
	}
	if len(f.Unchecked) > 0 {
		fmt.Fprintf(io.err, "calendars not validated: %s; give their file with --calendars\n", sanitize(strings.Join(f.Unchecked, ", ")))
	}
	verdict := io.palette.paint(green, "no errors")
	if len(f.Problems) > 0 {
		verdict = io.palette.paint(red, number(len(f.Problems), "error"))
	}
	_, err := fmt.Fprintf(io.out, "%s in %s: %s\n", number(f.Rules, "rule"), number(f.Files, "file"), verdict)
	return err
}
