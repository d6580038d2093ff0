package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// keyValues prints one resource, with a name and a value per line.
type keyValues struct {
	io   *cli
	errs []error
}

func newKeyValues(io *cli) *keyValues { return &keyValues{io: io} }

func (s *keyValues) line(name, format string, args ...any) {
	s.painted(name, normal, fmt.Sprintf(format, args...))
}

func (s *keyValues) painted(name string, c colour, value string) {
	_, err := fmt.Fprintf(s.io.out, "%s  %s\n",
		s.io.palette.paint(dim, fmt.Sprintf("%-13s", sanitize(name))), s.io.palette.paint(c, sanitize(value)))
	s.errs = append(s.errs, err)
}

// blank prints an empty line between resources.
func (s *keyValues) blank() {
	_, err := fmt.Fprintln(s.io.out)
	s.errs = append(s.errs, err)
}

// instant prints a time unless it is zero.
func (s *keyValues) instant(name string, t time.Time) {
	if !t.IsZero() {
		s.line(name, "%s (%s)", s.io.exact(t), s.io.relative(t))
	}
}

// document prints compact JSON unless it is empty.
func (s *keyValues) document(name string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		s.errs = append(s.errs, err)
		return
	}
	s.line(name, "%s", plainJSON(b.Bytes()))
}

func (s *keyValues) end() error { return errors.Join(s.errs...) }
