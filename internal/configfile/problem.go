// Package configfile reads what operators write: files in YAML, strictly, with all that is wrong
// in one at once. What the words of a file mean is for the room that the file belongs to.
package configfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File         string
	Line, Column int    // from 1, the column in characters
	Field        string // such as "channels.pager.url_file"; empty: the file as a whole
	Message      string // what is wrong, and what to write instead
}

// Error is the problem on one line: place, field, message.
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

// Problems is all that is wrong, in the order of the file. It is an error.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// orNil is ps in order as an error of a file, nil when nothing is wrong.
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

// Truncate keeps a message readable whatever it quotes: s, or its beginning of most characters.
func Truncate(s string, most int) string {
	if len(s) <= most { // it has no more characters than bytes
		return s
	}
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// quoted is how many characters of a text a message quotes.
const quoted = 40
