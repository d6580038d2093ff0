package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"deadman/web"
)

// keyValues prints one resource, with a name and a value per line.
type keyValues struct {
	p    *cli
	errs []error
}

func newSheet(p *cli) *keyValues { return &keyValues{p: p} }

func (s *keyValues) line(name, format string, args ...any) {
	s.painted(name, normal, fmt.Sprintf(format, args...))
}

func (s *keyValues) painted(name string, c colour, value string) {
	_, err := fmt.Fprintf(s.p.out, "%s  %s\n",
		s.p.palette.paint(dim, fmt.Sprintf("%-13s", sanitize(name))), s.p.palette.paint(c, sanitize(value)))
	s.errs = append(s.errs, err)
}

// blank prints an empty line between resources.
func (s *keyValues) blank() {
	_, err := fmt.Fprintln(s.p.out)
	s.errs = append(s.errs, err)
}

// instant prints a time unless it is zero.
func (s *keyValues) instant(name string, t time.Time) {
	if !t.IsZero() {
		s.line(name, "%s (%s)", s.p.exact(t), web.Relative(t, s.p.now()))
	}
}

// exact formats a time in the user's zone.
func (p *cli) exact(t time.Time) string { return t.In(p.zone).Format("2006-01-02 15:04:05 MST") }

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
