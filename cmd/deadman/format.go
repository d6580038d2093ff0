package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// format is the output format.
type format string

const (
	asText format = "text"
	asJSON format = "json"
	asCSV  format = "csv" // of commands with the annotation csvOutput
)

// csvOutput annotates the commands that can print CSV.
const csvOutput = "csv"

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch format(s) {
	case asText, asJSON, asCSV:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("%q is not text, json or csv", s)
}

// checkOutput returns an error if a command can't print the output format.
func checkOutput(io *cli) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if _, hasCSV := cmd.Annotations[csvOutput]; io.output == asCSV && !hasCSV {
			return usage("%s prints no csv; use -o text or -o json", commandName(cmd))
		}
		return nil
	}
}

// completeOutput completes the output formats of a command.
func completeOutput(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	formats := []string{string(asText), string(asJSON)}
	if _, hasCSV := cmd.Annotations[csvOutput]; hasCSV {
		formats = append(formats, string(asCSV))
	}
	return completeWords(formats...)(cmd, args, begun)
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// writeJSON indents and writes JSON. It escapes control characters, because the source is not trusted.
func writeJSON(out io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("invalid JSON in the response: %w", err)
	}
	b.WriteByte('\n')
	_, err := out.Write(plainJSON(b.Bytes()))
	return err
}

// writeValue writes one of our own values as JSON.
func writeValue(out io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeJSON(out, raw)
}
