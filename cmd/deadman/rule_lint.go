package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/rules"
)

func (p *program) lintCommand() *cobra.Command {
	var calendarFile string
	cmd := &cobra.Command{
		Use: "lint FILE|DIR|-...", Short: "Say what is wrong with rule files; exit 3 when something is",
		Long: `Says all that is wrong with rule files, each with its place and its remedy, and needs no
node. Which calendars there are is known where --calendars names the file of them.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes files or folders; it got none", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: completeFiles(ruleEndings...),
		RunE:              func(_ *cobra.Command, args []string) error { return p.lint(args, calendarFile) },
	}
	addCalendars(cmd, &calendarFile)
	return cmd
}

func addCalendars(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "calendars", "", "the file of calendars, as serve has it")
	complete(cmd, "calendars", completeFiles("yaml", "yml"))
}

func (p *program) lint(args []string, calendarFile string) error {
	known, err := readCalendars(calendarFile)
	if err != nil {
		return err
	}
	files, err := ruleFiles(args)
	if err != nil {
		return err
	}
	all, found, err := p.parseFiles(files, known)
	if err != nil {
		return err
	}
	f := findings{Rules: len(all), Files: len(files), Problems: found}
	if known == nil {
		f.Unchecked = calendarsOf(all)
	}
	if err := p.showUnasked(all); err != nil {
		return err
	}
	if err := p.show(f); err != nil {
		return err
	}
	if len(found) > 0 {
		return silentError{exitCondition}
	}
	return nil
}

// findings is what was looked at, and what is wrong with it.
type findings struct {
	Rules     int            `json:"rules"`
	Files     int            `json:"files"`
	Problems  rules.Problems `json:"problems"`
	Unchecked []string       `json:"unchecked_calendars,omitempty"` // calendars that nobody knows
}

// showUnasked says of which rules a part was not checked. In JSON a list of problems is all there
// is to say.
func (p *program) showUnasked(all []fileRule) error {
	if p.output == asJSON {
		return nil
	}
	for _, r := range all {
		source := r.Lookup.Asks()
		if source == "" {
			continue
		}
		_, err := fmt.Fprintf(p.out, "%s %s: the lookup was not checked against its source, %s; rule apply does that\n",
			p.palette.paint(yellow, "warning:"), plain(r.Name), plain(source))
		if err != nil {
			return err
		}
	}
	return nil
}

// calendarsOf is the calendars that rules name, by name.
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

func (p *program) showProblems(found rules.Problems, ruleCount, fileCount int) error {
	return p.show(findings{Rules: ruleCount, Files: fileCount, Problems: found})
}

func (p *program) show(f findings) error {
	if p.output == asJSON {
		return writeValue(p.out, f)
	}
	for _, problem := range f.Problems {
		if _, err := fmt.Fprintln(p.out, plain(problem.Error())); err != nil {
			return err
		}
	}
	if len(f.Unchecked) > 0 {
		fmt.Fprintf(p.err, "calendars were not checked: %s; name their file with --calendars\n", plain(strings.Join(f.Unchecked, ", ")))
	}
	verdict := p.palette.paint(green, "nothing is wrong")
	if len(f.Problems) > 0 {
		verdict = p.palette.paint(red, number(len(f.Problems), "problem"))
	}
	_, err := fmt.Fprintf(p.out, "%s in %s: %s\n", number(f.Rules, "rule"), number(f.Files, "file"), verdict)
	return err
}

// number counts things in words.
func number(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
