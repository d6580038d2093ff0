// Command testreport reads the output of go test -json. It prints a line for each package, and the output of the failed
// tests of a failed package. With -record it appends the ends of tests and packages to a file. With -table it prints the
// skipped tests, the time of each package, the slowest tests and the failed tests of such a file. With -took it fails if a
// test took more than its share of that time. With -unrun it fails if such a file lacks a test of ./...
//
//	go test -json ./... | testreport -record FILE
//	testreport -table FILE -took SECONDS
//	testreport -unrun FILE -except PATTERN
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	record := flag.String("record", "", "append the ends of tests and packages to this `file`")
	table := flag.String("table", "", "print the times of this recorded `file`")
	took := flag.Int("took", 0, "fail if a test took more than its share of these `seconds`; 0: no limit")
	unrun := flag.String("unrun", "", "fail if this recorded `file` lacks a test of ./...")
	except := flag.String("except", "^$", "with -unrun, the `pattern` of tests that do not have to run, such as \"^deadman/server TestVirtual\"")
	flag.Parse()
	var err error
	if *unrun != "" {
		err = checkAllRan(*unrun, *except)
	} else {
		err = run(*record, *table, *took, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(record, table string, took int, in io.Reader, out io.Writer) error {
	if table != "" {
		return printFile(out, table, took)
	}
	if record == "" {
		return follow(in, out, io.Discard)
	}
	f, err := os.OpenFile(record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(follow(in, out, f), f.Close())
}

// printFile prints the table of a recorded file. It fails if a test took more than its share of the seconds.
func printFile(out io.Writer, name string, took int) error {
	ends, err := readFile(name)
	if err != nil {
		return err
	}
	return errors.Join(printTable(out, ends), overlong(ends, took))
}

// readFile reads a recorded file.
func readFile(name string) ([]event, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ends, err := readEnds(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return ends, nil
}
