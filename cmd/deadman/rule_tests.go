package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"deadman/internal/calendars"
	"deadman/internal/configfile"
	"deadman/internal/ruletest"
	"deadman/rules"
	"deadman/rules/document"
)

func newRuleTestCmd(io *cli) *cobra.Command {
	v := &testRun{io: io}
	cmd := &cobra.Command{
		Use: "test [FILE|DIR]...", Short: "Run the tests of rules; exit code 3 if one fails",
		Long: `Runs the tests of rules in virtual time, without a node. The tests of a rule are beside it:
order-unshipped.test.yaml tests order-unshipped.yaml. Folders are searched for such files; the default
is the current folder.

A failure shows the difference between the expected and the actual alerts, and the time line of the
job: its events, checks and conditions. --coverage shows the steps, events and branches of conditions
that no test uses.

Exit code 3: a test fails, a file has errors, or the coverage is less than --min-coverage.`,
		Example: `  deadman rule test rules/
  deadman rule test order-unshipped.yaml --coverage
  deadman rule test rules/ --junit report.xml --min-coverage 90`,
		ValidArgsFunction: completeFiles(ruleEndings...),
		RunE:              func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&v.only, "run", "", "run only the tests whose name contains this text")
	flags.BoolVar(&v.coverage, "coverage", false, "show the coverage of each rule, and the parts that no test uses")
	flags.Float64Var(&v.least, "min-coverage", 0, "required coverage of all rules together, in percent")
	textFlagVar(flags, &v.junit, "junit", "file", "", "write the results to a JUnit file")
	addCalendars(cmd, &v.calendars)
	complete(cmd, "junit", completeFiles("xml"))
	return cmd
}

// testRun is one run of rule test.
type testRun struct {
	io *cli

	only      string
	coverage  bool
	least     float64
	junit     string
	calendars string

	known  calendars.Set // of --calendars; nil: not given
	used   *rules.Coverage
	tested map[string]bool // files of rules with tests
	report ruletest.Report
}

func (v *testRun) run(ctx context.Context, args []string) (err error) {
	if !(v.least >= 0 && v.least <= 100) { // also for NaN
		return usage("--min-coverage: %g is not a percentage; write a number from 0 to 100", v.least)
	}
	if v.known, err = readCalendars(v.calendars); err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	files, err := testFiles(args)
	if err != nil {
		return err
	}
	v.used, v.tested = rules.NewCoverage(), make(map[string]bool)
	v.report.Files = []ruletest.FileResult{}
	for _, file := range files {
		result, err := v.file(ctx, file)
		if err != nil {
			return err
		}
		v.report.Add(result)
	}
	if v.report.Passed+v.report.Failed == 0 {
		return usage("no test has a name that contains %q", v.only)
	}
	if err := v.findUntested(args); err != nil {
		return err
	}
	v.report.Coverage = ruletest.Cover(v.used)
	if err := v.writeJUnit(); err != nil {
		return err
	}
	if v.io.output == asJSON {
		err = writeValue(v.io.out, v.report)
	} else {
		err = v.print()
	}
	if err == nil && (v.report.Failed > 0 || v.isBelow()) {
		err = unmetTests.err()
	}
	return err
}

// isBelow reports whether the coverage is less than required.
func (v *testRun) isBelow() bool { return v.report.Coverage.Percent < v.least }

// testFiles returns the named files of tests, those beside the named files of rules, and those in the named folders.
func testFiles(args []string) (files []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return nil, usageError{err}
		case info.IsDir():
			found, err := testFilesIn(arg)
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
			continue
		case !rules.IsTestFile(arg):
			rule := arg
			arg = testFileOf(arg)
			if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) {
				return nil, usage("%s has no tests: %s does not exist", rule, arg)
			}
		}
		files = append(files, filepath.Clean(arg))
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func testFilesIn(dir string) (files []string, err error) {
	err = walkVisible(dir, func(path string) {
		if rules.IsTestFile(path) {
			files = append(files, filepath.Clean(path))
		}
	})
	if err == nil && len(files) == 0 {
		err = usage("%s contains no tests of rules (*%s)", dir, rules.TestSuffix)
	}
	return files, err
}

// readTestInput reads a file of tests, of rules or of calendars.
func readTestInput(path string) ([]byte, error) { return readSmall(path, document.MaxSize) }

// file runs the tests of a file.
func (v *testRun) file(ctx context.Context, path string) (ruletest.FileResult, error) {
	result := ruletest.FileResult{File: path, Tests: []ruletest.Result{}}
	s, err := ruletest.Load(path, v.known, readTestInput)
	for _, file := range s.Rules {
		v.tested[filepath.Clean(file)] = true
	}
	var wrong document.Problems
	var malformed configfile.Problems
	switch {
	case errors.As(err, &wrong) || errors.As(err, &malformed):
		result.Problems = strings.Split(err.Error(), "\n")
		return result, nil
	case err != nil:
		return result, err
	}
	for i := range s.Tests {
		t := &s.Tests[i]
		if !strings.Contains(t.Name, v.only) {
			continue
		}
		began := v.io.now()
		failures, err := s.Run(ctx, t, v.used)
		if err != nil {
			return result, err
		}
		result.Tests = append(result.Tests, ruletest.Result{Name: t.Name, Line: t.Line, Seconds: v.io.now().Sub(began).Seconds(), Failures: failures})
	}
	return result, nil
}

// findUntested finds the rules in the named folders that no file of tests has. The coverage includes them.
func (v *testRun) findUntested(args []string) error {
	var untested []string
	for _, arg := range args {
		if !isFolder(arg) {
			continue
		}
		err := walkVisible(arg, func(path string) {
			if rules.IsRuleFile(path) && !v.tested[filepath.Clean(path)] {
				untested = append(untested, filepath.Clean(path))
			}
		})
		if err != nil {
			return err
		}
	}
	slices.Sort(untested)
	for _, path := range slices.Compact(untested) {
		if err := v.coverUntested(path); err != nil {
			return err
		}
	}
	return nil
}

// coverUntested adds the rules of a file without tests to the coverage. A rule with a handler can have no tests.
func (v *testRun) coverUntested(path string) error {
	all, problems, err := parseFiles(v.io, []ruleFile{{path: path}}, v.known)
	if err != nil {
		return err
	}
	if len(problems) > 0 && filepath.Ext(path) == ".json" {
		return nil // it may be another file, such as package.json
	}
	if len(problems) > 0 {
		v.report.Add(ruletest.FileResult{File: path, Tests: []ruletest.Result{}, Problems: strings.Split(problems.Error(), "\n")})
		return nil
	}
	v.report.Untested = append(v.report.Untested, path)
	for _, d := range all {
		if d.Handler != "" {
			continue
		}
		rule, err := rules.Compile(d.Document, rules.RuleVersion{Name: d.Name}, v.known)
		if err != nil {
			return err
		}
		rule.Trace(v.used)
	}
	return nil
}

// writeJUnit writes the JUnit file, if one is requested.
func (v *testRun) writeJUnit() error {
	if v.junit == "" {
		return nil
	}
	file, err := os.Create(v.junit)
	if err != nil {
		return usageError{err}
	}
	return errors.Join(v.report.WriteJUnit(file), file.Close())
}

// print prints the failures, a line for each file, the coverage and a summary.
func (v *testRun) print() error {
	p := v.io.palette
	for _, f := range v.report.Files {
		mark := p.paint(green, "ok  ")
		if f.Failed() {
			mark = p.paint(red, "FAIL")
		}
		if _, err := fmt.Fprintf(v.io.out, "%s  %s  %s  %s\n", mark, sanitize(f.File), number(len(f.Tests), "test"), took(f.Seconds())); err != nil {
			return err
		}
		for _, problem := range f.Problems {
			fmt.Fprintf(v.io.out, "      %s\n", sanitize(problem))
		}
		for _, t := range f.Tests {
			v.printFailures(f.File, t)
		}
	}
	for _, path := range v.report.Untested {
		fmt.Fprintf(v.io.out, "%s  %s  no tests\n", p.paint(yellow, "-   "), sanitize(path))
	}
	if v.coverage {
		if err := v.printCoverage(); err != nil {
			return err
		}
	}
	verdict := p.paint(green, number(v.report.Passed, "test")+" passed")
	if v.report.Failed > 0 {
		verdict = p.paint(red, fmt.Sprintf("%d failed", v.report.Failed)) + fmt.Sprintf(", %d passed", v.report.Passed)
	}
	below := ""
	if v.isBelow() {
		below = p.paint(red, fmt.Sprintf(", less than --min-coverage %g", v.least))
	}
	covered := "no rule is covered"
	if len(v.report.Coverage.Rules) > 0 {
		covered = "coverage " + percent(v.report.Coverage.Percent)
	}
	_, err := fmt.Fprintf(v.io.out, "%s in %s; %s%s\n", verdict, took(v.report.Seconds), covered, below)
	return err
}

func took(seconds float64) string { return fmt.Sprintf("%.1f ms", 1000*seconds) }

// percent rounds down, so that 100 % is complete.
func percent(p float64) string { return fmt.Sprintf("%d %%", int(p)) }

// printFailures prints the failures of a test. Missing lines are red, and lines that are not expected green.
func (v *testRun) printFailures(file string, t ruletest.Result) {
	p := v.io.palette
	for i, f := range t.Failures {
		if i == 0 {
			fmt.Fprintf(v.io.out, "\n  %s\n", p.paint(bold, sanitize(t.Name)))
		} else {
			fmt.Fprintln(v.io.out)
		}
		fmt.Fprintf(v.io.out, "  %s:%d: ", sanitize(file), f.Line)
		for j, line := range f.Lines() {
			line = sanitize(line)
			switch {
			case strings.HasPrefix(line, "- "):
				line = p.paint(red, line)
			case strings.HasPrefix(line, "+ "):
				line = p.paint(green, line)
			}
			if j > 0 && line != "" {
				line = "    " + line
			}
			fmt.Fprintln(v.io.out, line)
		}
	}
	if !t.Passed() {
		fmt.Fprintln(v.io.out)
	}
}

// printCoverage prints a table of the rules, and of the parts that no test uses.
func (v *testRun) printCoverage() error {
	fmt.Fprintln(v.io.out)
	w := newTable(v.io.out, v.io.palette, "rule", "steps", "events", "branches", "coverage")
	for _, r := range v.report.Coverage.Rules {
		cells := []cell{cellOf(r.Rule)}
		for _, kind := range []rules.PointKind{rules.StepPoint, rules.EventPoint, rules.BranchPoint} {
			reached, all := r.Goals(kind)
			if all == 0 {
				cells = append(cells, dimCell("-"))
				continue
			}
			cells = append(cells, cellOf(fmt.Sprintf("%d/%d", reached, all)))
		}
		w.row(append(cells, cellOf(percent(r.Percent)))...)
	}
	if err := w.end(); err != nil {
		return err
	}
	for _, r := range v.report.Coverage.Rules {
		for _, line := range r.Missing() {
			fmt.Fprintf(v.io.out, "%s: %s\n", sanitize(r.Rule), sanitize(line))
		}
	}
	fmt.Fprintln(v.io.out)
	return nil
}
