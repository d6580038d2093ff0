package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/internal/calendars"
	"deadman/rules"
	"deadman/server"
)

func (p *cli) lintCommand() *cobra.Command {
	var calendarFile, sourceFile string
	cmd := &cobra.Command{
		Use: "lint FILE|DIR|-...", Short: "Say what is wrong with rule files; exit 3 when something is",
		Long: `Says all that is wrong with rule files, each with its place and its remedy, and needs no
node. Which calendars there are is known where --calendars names the file of them, and whether
sources take what rules look up where --sources does: then they are asked, about nobody.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes files or folders; it got none", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: completeFiles(ruleEndings...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.lint(cmd.Context(), args, calendarFile, sourceFile)
		},
	}
	addCalendars(cmd, &calendarFile)
	cmd.Flags().StringVar(&sourceFile, "sources", "", "the file of sources, as serve has it")
	complete(cmd, "sources", completeFiles("yaml", "yml"))
	return cmd
}

func addCalendars(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "calendars", "", "the file of calendars, as serve has it")
	complete(cmd, "calendars", completeFiles("yaml", "yml"))
}

func (p *cli) lint(ctx context.Context, args []string, calendarFile, sourceFile string) error {
	known, err := readCalendars(calendarFile)
	if err != nil {
		return err
	}
	files, err := ruleFiles(args)
	if err != nil {
		return err
	}
	check, letGo, err := p.checkLookups(ctx, known, sourceFile)
	if err != nil {
		return err
	}
	defer letGo()
	var f findings
	all, found, err := p.parseChecking(files, known, func(data []byte, file string) error {
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
		f.Warnings = unasked(all)
	}
	for _, r := range all {
		for _, warning := range r.IsOver(p.now()) {
			f.Warnings = append(f.Warnings, r.Name+": "+warning)
		}
	}
	if err := p.show(f); err != nil {
		return err
	}
	if len(found) > 0 {
		return silentError{exitCondition}
	}
	return nil
}

// checkLookups returns a check of a file's lookups against the sources in another file. If that is empty, the check
// does nothing.
func (p *cli) checkLookups(ctx context.Context, known calendars.Set, sourceFile string) (check func(data []byte, file string) ([]string, error), letGo func(), err error) {
	if sourceFile == "" {
		return func([]byte, string) ([]string, error) { return nil, nil }, func() {}, nil
	}
	asked, letGo, err := server.OpenSources(sourceFile, p.getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("sources: %w", err)
	}
	registry := rules.Registry{Calendars: known, Sources: asked} // verification needs no store
	return func(data []byte, file string) ([]string, error) { return registry.VerifyText(ctx, data, file) }, letGo, nil
}

// findings is the result of lint.
type findings struct {
	Rules     int            `json:"rules"`
	Files     int            `json:"files"`
	Problems  rules.Problems `json:"problems"`
	Unchecked []string       `json:"unchecked_calendars,omitempty"` // unknown calendars
	Warnings  []string       `json:"warnings,omitempty"`            // skipped verifications, with reasons
}

// unasked returns warnings about rules with an unverified lookup.
func unasked(all []fileRule) (warnings []string) {
	for _, r := range all {
		if source := r.Lookup.Asks(); source != "" {
			warnings = append(warnings, fmt.Sprintf(
				"%s: the lookup was not checked against its source, %s; name the file of sources with --sources, or let rule apply do it", r.Name, source))
		}
	}
	return warnings
}

// calendarsOf returns the sorted names of the calendars that rules use.
func calendarsOf(all []fileRule) []string {
	var names []string
	for _, rule := range all {
		for _, step := range rule.Escalate {
			names = append(names, step.Of, step.Within)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

func (p *cli) showProblems(found rules.Problems, ruleCount, fileCount int) error {
	return p.show(findings{Rules: ruleCount, Files: fileCount, Problems: found})
}

func (p *cli) show(f findings) error {
	if p.output == asJSON {
		return writeValue(p.out, f)
	}
	for _, problem := range f.Problems {
		if _, err := fmt.Fprintln(p.out, sanitize(problem.Error())); err != nil {
			return err
		}
	}
	for _, warning := range f.Warnings {
		if _, err := fmt.Fprintf(p.out, "%s %s\n", p.palette.paint(yellow, "warning:"), sanitize(warning)); err != nil {
			return err
		}
	}
	if len(f.Unchecked) > 0 {
		fmt.Fprintf(p.err, "calendars were not checked: %s; name their file with --calendars\n", sanitize(strings.Join(f.Unchecked, ", ")))
	}
	verdict := p.palette.paint(green, "nothing is wrong")
	if len(f.Problems) > 0 {
		verdict = p.palette.paint(red, number(len(f.Problems), "problem"))
	}
	_, err := fmt.Fprintf(p.out, "%s in %s: %s\n", number(f.Rules, "rule"), number(f.Files, "file"), verdict)
	return err
}

// number formats a count with its noun.
func number(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
