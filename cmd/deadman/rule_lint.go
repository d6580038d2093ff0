package main

import (
	"fmt"

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
	if err := p.showProblems(found, len(all), len(files)); err != nil {
		return err
	}
	if len(found) > 0 {
		return silentError{exitCondition}
	}
	return nil
}

func (p *program) showProblems(found rules.Problems, ruleCount, fileCount int) error {
	if p.output == asJSON {
		return writeValue(p.out, map[string]any{"rules": ruleCount, "files": fileCount, "problems": found})
	}
	for _, problem := range found {
		if _, err := fmt.Fprintln(p.out, plain(problem.Error())); err != nil {
			return err
		}
	}
	verdict := p.palette.paint(green, "nothing is wrong")
	if len(found) > 0 {
		verdict = p.palette.paint(red, number(len(found), "problem"))
	}
	_, err := fmt.Fprintf(p.out, "%s in %s: %s\n", number(ruleCount, "rule"), number(fileCount, "file"), verdict)
	return err
}

// number counts things in words.
func number(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
