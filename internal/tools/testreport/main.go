// Command testreport reads the output of go test -json. It prints a line for each package, and the output of the failed
// tests of a failed package. With -record it appends the ends of tests and packages to a file. With -table it prints the
// skipped tests, the time of each package and the slowest tests of such a file.
//
//	go test -json ./... | testreport -record FILE
//	testreport -table FILE
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
	flag.Parse()
	if err := run(*record, *table, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

func run(record, table string, in io.Reader, out io.Writer) error {
	if table != "" {
		return printFile(out, table)
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

// printFile prints the table of a recorded file.
func printFile(out io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	ends, err := readEnds(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return printTable(out, ends)
}
