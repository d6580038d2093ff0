package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// reasonLines is the largest number of lines in the reason of a skipped or failed test.
const reasonLines = 20

// event is a line of go test -json, as "go doc test2json" describes it.
type event struct {
	Action     string
	Package    string
	ImportPath string `json:",omitempty"` // of a package that is built
	Test       string `json:",omitempty"` // empty: the event is about the package
	Elapsed    float64
	Output     string `json:",omitempty"`
}

// ends reports whether the event ends a test or a package.
func (e event) ends() bool { return e.Action == "pass" || e.Action == "fail" || e.Action == "skip" }

// stream collects the output of the packages that are being tested.
type stream struct {
	out    io.Writer
	record *json.Encoder
	lines  map[string][]event         // the output of each package
	passed map[string]map[string]bool // the passed and skipped tests of each package
}

// follow reads events until the end of the input, prints the result of each package at its end, and records the ends
// of tests and packages. Lines that are no events are printed unchanged.
func follow(in io.Reader, out, record io.Writer) error {
	s := &stream{out: out, record: json.NewEncoder(record), lines: make(map[string][]event), passed: make(map[string]map[string]bool)}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := s.add(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return s.printUnfinished()
		}
		if err != nil {
			return err
		}
	}
}

func (s *stream) add(line string) error {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		return s.print(line)
	}
	switch {
	case e.Action == "build-output":
		return s.print(e.Output)
	case e.Action == "output":
		s.lines[e.Package] = append(s.lines[e.Package], e)
	case e.ends() && e.Test != "":
		return s.endTest(e)
	case e.ends():
		return s.endPackage(e)
	}
	return nil
}

// endTest records the end of a test. A skipped or failed test is recorded with its reason.
func (s *stream) endTest(e event) error {
	if e.Action != "pass" {
		e.Output = s.reason(e)
	}
	if e.Action != "fail" {
		if s.passed[e.Package] == nil {
			s.passed[e.Package] = make(map[string]bool)
		}
		s.passed[e.Package][e.Test] = true
	}
	return s.record.Encode(e)
}

// reason returns the first lines of the log of a test, without the log of a node.
func (s *stream) reason(ended event) string {
	var reason strings.Builder
	lines := 0
	for _, l := range s.lines[ended.Package] {
		if l.Test == ended.Test && lines < reasonLines && !isFrame(l.Output) && !isNodeLog(l.Output) {
			reason.WriteString(l.Output)
			lines++
		}
	}
	return strings.TrimSpace(reason.String())
}

// endPackage prints the result of a package and forgets its output.
func (s *stream) endPackage(e event) error {
	err := s.printPackage(e.Package, e.Action == "fail")
	delete(s.lines, e.Package)
	delete(s.passed, e.Package)
	return errors.Join(err, s.record.Encode(e))
}

// printPackage prints the summary of a package. If the package failed, the output of all tests that did not pass
// comes first.
func (s *stream) printPackage(name string, failed bool) error {
	for _, l := range s.lines[name] {
		hidden := s.passed[name][l.Test] || strings.HasPrefix(l.Output, "=== ")
		if isSummary(l) || failed && !hidden {
			if err := s.print(l.Output); err != nil {
				return err
			}
		}
	}
	return nil
}

// printUnfinished prints the output of the packages that did not end.
func (s *stream) printUnfinished() error {
	for name := range s.lines {
		if err := s.printPackage(name, true); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) print(text string) error {
	_, err := fmt.Fprint(s.out, text)
	return err
}

// isSummary reports whether a line is the summary of a package that passed.
func isSummary(l event) bool {
	return l.Test == "" && (strings.HasPrefix(l.Output, "ok ") || strings.HasPrefix(l.Output, "? ") || strings.HasPrefix(l.Output, "\t"))
}

// isFrame reports whether a line is written by go test itself.
func isFrame(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ")
}

// isNodeLog reports whether a line was logged by a node.
func isNodeLog(line string) bool {
	return strings.Contains(line, `{"time":"`) || strings.Contains(line, "time=") && strings.Contains(line, " level=")
}
