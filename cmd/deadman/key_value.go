package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// keyValues prints one resource, with a name and a value per line. On a terminal, it breaks values that are too wide.
type keyValues struct {
	io    *cli
	width int // of the terminal, in characters; 0: no limit
	errs  []error
}

// nameWidth is the width of the column of names, in characters.
const nameWidth = 13

func newKeyValues(io *cli) *keyValues { return &keyValues{io: io, width: terminalWidth(io.out)} }

func (s *keyValues) line(name, format string, args ...any) {
	s.painted(name, normal, fmt.Sprintf(format, args...))
}

func (s *keyValues) painted(name string, c colour, value string) {
	name, value = sanitize(name), sanitize(value)
	if s.width == 0 {
		s.print(name, c, value)
		return
	}
	room := s.width - max(nameWidth, utf8.RuneCountInString(name)) - between
	for _, line := range wrapText(value, max(room, least)) {
		s.print(name, c, line)
		name = ""
	}
}

// print prints a line of text that is safe for a terminal.
func (s *keyValues) print(name string, c colour, text string) {
	_, err := fmt.Fprintf(s.io.out, "%s  %s\n", s.io.palette.paint(dim, fmt.Sprintf("%-*s", nameWidth, name)), s.io.palette.paint(c, text))
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

// document prints compact JSON unless it is empty. It breaks no lines, so that the JSON can be copied.
func (s *keyValues) document(name string, raw json.RawMessage) {
	if len(raw) == 0 {
		return
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		s.errs = append(s.errs, err)
		return
	}
	s.print(name, normal, sanitize(string(plainJSON(b.Bytes()))))
}

func (s *keyValues) end() error { return errors.Join(s.errs...) }
