// Package configfile reads YAML files written by operators. It is strict and reports all problems at once. The meaning
// of the fields is defined by the package that a file belongs to.
package configfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one problem of a file.
type Problem struct {
	File         string
	Line, Column int    // from 1, the column in characters
	Field        string // such as "channels.pager.url_file"; empty: the file as a whole
	Message      string // the problem and its remedy
}

// Error returns the problem on one line: place, field, message.
func (p Problem) Error() string {
	place := fmt.Sprintf("%d:%d: ", p.Line, p.Column)
	if p.File != "" {
		place = p.File + ":" + place
	}
	if p.Field != "" {
		place += p.Field + ": "
	}
	return place + p.Message
}

// Problems are all problems of a file, ordered by place. It is an error.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// orNil returns ps, sorted, as the error of a file; nil if there are no problems.
func (ps Problems) orNil(file string) error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range ps {
		ps[i].File = file
	}
	return ps
}

// Truncate returns s, or the beginning of at most most characters, so that a message that quotes s stays readable.
func Truncate(s string, limit int) string {
	if len(s) <= limit { // it has no more characters than bytes
		return s
	}
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}

// quoted is the maximum number of characters of a quoted text.
const quoted = 40
