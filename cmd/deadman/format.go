package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// format is the output format.
type format string

const (
	asText format = "text"
	asJSON format = "json"
)

// Set implements pflag.Value.
func (f *format) Set(s string) error {
	switch format(s) {
	case asText, asJSON:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("%q is not text or json", s)
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
