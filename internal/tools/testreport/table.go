package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// slowest is the number of tests in the table.
const slowest = 20

// A loop fails if one of its tests takes more than a quarter of the loop's time: that test decides how long the loop is.
// The limit is a share, so that it is the same on a fast and on a slow machine. No test fails below leastLimit: in a short
// loop, a test that waits for a node on a busy machine takes as long.
const (
	shareOfLoop = 4
	leastLimit  = 120 // seconds
)

// overlong returns an error with the tests that took more than their share of the loop's seconds; 0: no limit.
func overlong(ends []event, took int) error {
	if took == 0 {
		return nil
	}
	var all []error
	limit := max(float64(took)/shareOfLoop, leastLimit)
	for _, e := range withoutParents(ends) {
		if e.Test != "" && e.Elapsed > limit {
			all = append(all, fmt.Errorf("%s %s took %.0f s, the most is %.0f s, a quarter of the loop or two minutes: make it shorter, or mark it with longtest.Only", e.Package, e.Test, e.Elapsed, limit))
		}
	}
	return errors.Join(all...)
}

// readEnds reads the recorded ends of tests and packages.
func readEnds(in io.Reader) (ends []event, err error) {
	for dec := json.NewDecoder(in); ; {
		var e event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return ends, nil
		}
		if err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
}

// printTable prints the skipped tests with their reasons, the slowest tests without subtests, a line for each package as
// go test does, the slowest first, and the failed tests with their reasons.
func printTable(out io.Writer, ends []event) error {
	var packages, tests, skipped, failed []event
	for _, e := range ends {
		if e.Action == "fail" && e.Output != "" {
			failed = append(failed, e)
		}
		switch {
		case e.Test == "":
			packages = append(packages, e)
		case e.Action == "skip":
			skipped = append(skipped, e)
		default:
			tests = append(tests, e)
		}
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	printSkipped(w, skipped)
	printSlowest(w, withoutParents(tests))
	err := w.Flush()
	printPackages(out, packages)
	printFailed(out, failed)
	return err
}

func printSkipped(w io.Writer, skipped []event) {
	for _, e := range skipped {
		fmt.Fprintf(w, "skipped\t%s %s\t%s\n", e.Package, e.Test, e.Output)
	}
	fmt.Fprintln(w)
}

func printSlowest(w io.Writer, tests []event) {
	tests = bySeconds(tests)
	fmt.Fprintln(w, "seconds\ttest")
	for _, e := range tests[:min(slowest, len(tests))] {
		fmt.Fprintf(w, "%7.1f\t%s %s\n", e.Elapsed, e.Package, e.Test)
	}
	fmt.Fprintln(w)
}

// printPackages prints the results of the packages as go test does. Packages without tests have none.
func printPackages(w io.Writer, packages []event) {
	for _, e := range bySeconds(packages) {
		switch e.Action {
		case "pass":
			fmt.Fprintf(w, "ok  \t%s\t%.3fs\n", e.Package, e.Elapsed)
		case "fail":
			fmt.Fprintf(w, "FAIL\t%s\t%.3fs\n", e.Package, e.Elapsed)
		}
	}
}

// withoutParents returns the tests that have no subtests. The time of a test does not include its parallel subtests.
func withoutParents(tests []event) []event {
	parents := make(map[string]bool)
	for _, e := range tests {
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
			parents[e.Package+" "+e.Test[:i]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(tests), func(e event) bool { return parents[e.Package+" "+e.Test] })
}

// bySeconds returns the events with the slowest first.
func bySeconds(events []event) []event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
}

// printFailed prints the failed tests with their reasons. A test that only has failed subtests has no reason.
func printFailed(w io.Writer, failed []event) {
	for _, e := range failed {
		fmt.Fprintf(w, "\nfailed  %s %s\n%s\n", e.Package, e.Test, e.Output)
	}
}
