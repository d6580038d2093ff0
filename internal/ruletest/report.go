package ruletest

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"deadman/rules"
)

// Report has the results of tests by file.
type Report struct {
	Passed   int          `json:"passed"`
	Failed   int          `json:"failed"` // tests, and files that have errors
	Seconds  float64      `json:"seconds"`
	Files    []FileResult `json:"files"`
	Untested []string     `json:"untested,omitempty"` // rules without a test
	Coverage Covered      `json:"coverage"`
}

// FileResult has the results of the tests of a file.
type FileResult struct {
	File     string   `json:"file"`
	Problems []string `json:"problems,omitempty"` // errors in the file, or in its rules; then no test is run
	Tests    []Result `json:"tests"`
}

// Failed reports whether the file has errors, or a test of it failed.
func (f FileResult) Failed() bool {
	return len(f.Problems) > 0 || slices.ContainsFunc(f.Tests, func(r Result) bool { return !r.Passed() })
}

// Seconds returns how long the tests of the file took.
func (f FileResult) Seconds() (all float64) {
	for _, t := range f.Tests {
		all += t.Seconds
	}
	return all
}

// Add adds the results of a file.
func (r *Report) Add(f FileResult) {
	r.Files = append(r.Files, f)
	if len(f.Problems) > 0 {
		r.Failed++
	}
	for _, t := range f.Tests {
		if t.Passed() {
			r.Passed++
		} else {
			r.Failed++
		}
	}
	r.Seconds += f.Seconds()
}

// Covered is the coverage of the rules.
type Covered struct {
	Percent float64       `json:"percent"` // 0 without a rule
	Rules   []RuleCovered `json:"rules"`
}

// RuleCovered is the coverage of a rule.
type RuleCovered struct {
	Rule    string         `json:"rule"`
	Percent float64        `json:"percent"`
	Points  []*rules.Point `json:"points"`
}

// Cover returns the coverage of the rules, by their names.
func Cover(c *rules.Coverage) Covered {
	out := Covered{Rules: []RuleCovered{}}
	for _, p := range c.Points() {
		i := slices.IndexFunc(out.Rules, func(r RuleCovered) bool { return r.Rule == p.Rule })
		if i < 0 {
			i = len(out.Rules)
			out.Rules = append(out.Rules, RuleCovered{Rule: p.Rule})
		}
		out.Rules[i].Points = append(out.Rules[i].Points, p)
	}
	slices.SortFunc(out.Rules, func(a, b RuleCovered) int { return strings.Compare(a.Rule, b.Rule) })
	for i := range out.Rules {
		out.Rules[i].Percent = percentOf(out.Rules[i].Points)
	}
	if len(out.Rules) > 0 {
		out.Percent = percentOf(c.Points())
	}
	return out
}

// percentOf returns the percentage of covered goals; 100 if there is none.
func percentOf(points []*rules.Point) float64 {
	reached, all := goalsOf(points, "")
	if all == 0 {
		return 100
	}
	return 100 * float64(reached) / float64(all)
}

// Goals returns how many goals of a kind are covered, and how many there are.
func (r RuleCovered) Goals(kind rules.PointKind) (reached, all int) { return goalsOf(r.Points, kind) }

func goalsOf(points []*rules.Point, kind rules.PointKind) (reached, all int) {
	for _, p := range points {
		if kind == "" || p.Kind == kind {
			n, of := p.Goals()
			reached, all = reached+n, all+of
		}
	}
	return reached, all
}

// Missing returns what no test covers, a line each.
func (r RuleCovered) Missing() (lines []string) {
	for _, p := range r.Points {
		switch {
		case p.Kind == rules.StepPoint && p.Hits == 0:
			lines = append(lines, p.Field+" never raises an alert")
		case p.Kind == rules.EventPoint && p.Hits == 0:
			lines = append(lines, p.Field+": no event matches it")
		case p.Kind != rules.BranchPoint:
		case p.Hits == 0 && p.Misses == 0:
			lines = append(lines, fmt.Sprintf("%s: %s is never evaluated", p.Field, p.Condition))
		case p.Hits == 0:
			lines = append(lines, fmt.Sprintf("%s: %s is never true", p.Field, p.Condition))
		case p.Misses == 0:
			lines = append(lines, fmt.Sprintf("%s: %s is never false", p.Field, p.Condition))
		}
	}
	return lines
}

// The elements of a JUnit file.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr,omitempty"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Error   *junitFailure `xml:"error"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as a JUnit file: a suite for each file, and a case for each test. Errors in a file are one
// case.
func (r *Report) WriteJUnit(to io.Writer) error {
	all := junitSuites{Name: "deadman rule test", Time: junitTime(r.Seconds)}
	for _, f := range r.Files {
		suite := junitSuite{Name: f.File, Time: junitTime(f.Seconds())}
		class := strings.TrimSuffix(f.File, rules.TestSuffix)
		if len(f.Problems) > 0 {
			suite.Errors++
			suite.Cases = append(suite.Cases, junitCase{
				Name: "the file can be read", Class: class, File: f.File, Time: junitTime(0),
				Error: &junitFailure{f.Problems[0], "problem", strings.Join(f.Problems, "\n")},
			})
		}
		for _, t := range f.Tests {
			one := junitCase{Name: t.Name, Class: class, File: f.File, Line: t.Line, Time: junitTime(t.Seconds)}
			if !t.Passed() {
				suite.Failures++
				one.Failure = &junitFailure{t.Failures[0].Message, "failure", t.text(f.File)}
			}
			suite.Cases = append(suite.Cases, one)
		}
		suite.Tests = len(suite.Cases)
		all.Tests, all.Failures, all.Errors = all.Tests+suite.Tests, all.Failures+suite.Failures, all.Errors+suite.Errors
		all.Suites = append(all.Suites, suite)
	}
	if _, err := io.WriteString(to, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(to)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(to, "\n")
	return err
}

func junitTime(seconds float64) string { return fmt.Sprintf("%.6f", seconds) }

// text returns the failures of a test as text.
func (r Result) text(file string) string {
	var b strings.Builder
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "%s:%d: %s\n\n", file, f.Line, strings.Join(f.Lines(), "\n"))
	}
	return b.String()
}
