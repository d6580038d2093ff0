package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"deadman/rules/document"

	"deadman/internal/calendars"
	"deadman/rules"
)

// Name of standard input as an argument, and in error messages.
const (
	standardInput = "-"
	inputName     = "standard input"
)

// ruleFile is a file of rules, or standard input.
type ruleFile struct {
	path   string
	bundle string // bundle of the file; empty: none
	single bool   // it was named itself: its rules join the bundle of its folder only if they belong to it already
}

// name returns the file's name for messages.
func (f ruleFile) name() string {
	if f.path == standardInput {
		return inputName
	}
	return f.path
}

// ruleFiles returns the named files, and the rule files in the named folders as serve selects them. A single file
// has the bundle of its folder.
func ruleFiles(args []string) ([]ruleFile, error) {
	var files []ruleFile
	for _, arg := range args {
		if arg == standardInput {
			files = append(files, ruleFile{path: arg})
			continue
		}
		info, err := os.Stat(arg)
		if err != nil {
			return nil, usageError{err}
		}
		if !info.IsDir() && rules.IsTestFile(arg) {
			return nil, usage("%s has tests, not rules; run them with deadman rule test", arg)
		}
		if !info.IsDir() {
			files = append(files, ruleFile{path: arg, bundle: rules.BundleOf(filepath.Dir(arg)), single: true})
			continue
		}
		found, err := filesIn(arg)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.SortStableFunc(files, func(a, b ruleFile) int {
		if a.single != b.single && a.path == b.path {
			return map[bool]int{true: 1, false: -1}[a.single] // the folder has it, too
		}
		return strings.Compare(a.path, b.path)
	})
	return slices.CompactFunc(files, func(a, b ruleFile) bool { return a.path == b.path }), nil
}

func filesIn(dir string) ([]ruleFile, error) {
	var files []ruleFile
	bundle := rules.BundleOf(dir)
	err := walkVisible(dir, func(path string) {
		if rules.IsRuleFile(path) {
			files = append(files, ruleFile{path: path, bundle: bundle})
		}
	})
	if err == nil && len(files) == 0 {
		err = usage("%s contains no rule files (.yaml, .yml, .json)", dir)
	}
	return files, err
}

// walkVisible passes on the files in a folder that are not hidden.
func walkVisible(dir string, use func(path string)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch hidden := path != dir && strings.HasPrefix(d.Name(), "."); {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return filepath.SkipDir
		case !hidden && !d.IsDir():
			use(path)
		}
		return nil
	})
}

// readRules reads a file of rules, or standard input.
func readRules(io *cli, f ruleFile) ([]byte, error) {
	if f.path != standardInput {
		return readSmall(f.path, document.MaxSize)
	}
	return readAtMost(io.input, "the standard input", document.MaxSize)
}

// fileRule is a rule with its file.
type fileRule struct {
	document.Parsed
	ruleFile
}

// parseFiles parses rule files, and returns the rules and all problems. known are the configured calendars; nil skips
// their validation.
func parseFiles(io *cli, files []ruleFile, known calendars.Set) ([]fileRule, document.Problems, error) {
	return parseChecking(io, files, known, func([]byte, string) error { return nil })
}

// parseChecking is parseFiles with a further check of each valid file. If the check returns Problems they are
// collected, and any other error aborts.
func parseChecking(io *cli, files []ruleFile, known calendars.Set, check func(data []byte, file string) error) ([]fileRule, document.Problems, error) {
	var all []fileRule
	found, from := document.Problems{}, make(map[string]string)
	for _, file := range files {
		data, err := readRules(io, file)
		if err != nil {
			return nil, nil, err
		}
		docs, err := rules.ParseWithTexts(data, file.name(), known)
		if err == nil {
			err = check(data, file.name())
		}
		var wrong document.Problems
		if err != nil && !errors.As(err, &wrong) {
			return nil, nil, err
		}
		found = append(found, wrong...)
		for _, d := range docs {
			if other, twice := from[d.Name]; twice {
				found = append(found, document.Problem{
					File: file.name(), Rule: d.Name, Pointer: "/name",
					Message: "duplicate name, also used by a rule in " + other,
				})
			}
			from[d.Name] = file.name()
			all = append(all, fileRule{d, file})
		}
	}
	return all, found, nil
}

// readCalendars reads a file of calendars. It returns nil, meaning unknown, if path is empty.
func readCalendars(path string) (calendars.Set, error) {
	if path == "" {
		return nil, nil
	}
	const limit = 256 << 10
	data, err := readSmall(path, limit)
	if err != nil {
		return nil, usageError{err}
	}
	return calendars.Parse(data, path)
}
