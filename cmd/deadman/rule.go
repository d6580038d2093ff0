package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/rules"
)

func (p *program) ruleCommand() *cobra.Command {
	cmd := group("rule", "Check rules")
	cmd.AddCommand(&cobra.Command{
		Use: "lint FILE|DIR...", Short: "Say what is wrong with rule files; exit 3 when something is",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("%s takes files or folders; it got none", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return p.lint(args) },
	})
	return cmd
}

func (p *program) lint(args []string) error {
	files, err := ruleFiles(args)
	if err != nil {
		return err
	}
	found, names := rules.Problems{}, make(map[string]string)
	for _, file := range files {
		problems, err := lintFile(file, names)
		if err != nil {
			return err
		}
		found = append(found, problems...)
	}
	if err := p.showProblems(found, len(names), len(files)); err != nil {
		return err
	}
	if len(found) > 0 {
		return silentError{exitCondition}
	}
	return nil
}

// lintFile returns what is wrong with a file. names holds where each rule was seen.
func lintFile(file string, names map[string]string) (rules.Problems, error) {
	data, err := readSmall(file, rules.MaxSize)
	if err != nil {
		return nil, err
	}
	docs, err := rules.Parse(data, file)
	var found rules.Problems
	if err != nil && !errors.As(err, &found) {
		return nil, err
	}
	for _, d := range docs {
		if other, twice := names[d.Name]; twice {
			found = append(found, rules.Problem{
				File: file, Rule: d.Name, Pointer: "/name",
				Message: "the name is taken by a rule in " + other + "; names are unique",
			})
		}
		names[d.Name] = file
	}
	return found, nil
}

// ruleFiles are the files named, and those in the folders named that serve would apply.
func ruleFiles(args []string) ([]string, error) {
	var files []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, usageError{err}
		}
		if !info.IsDir() {
			files = append(files, arg)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			switch hidden := path != arg && strings.HasPrefix(d.Name(), "."); {
			case err != nil:
				return err
			case hidden && d.IsDir():
				return filepath.SkipDir
			case !hidden && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(files) == before {
			return nil, usage("%s has no rule files; their names end in .yaml, .yml or .json", arg)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
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
