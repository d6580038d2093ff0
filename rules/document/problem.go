package document

import (
	"fmt"
	"strings"
)

// Problem is one error in a document.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1; 0: not from a text
	Column  int    `json:"column,omitempty"` // from 1, in characters
	Pointer string `json:"pointer"`          // a JSON pointer (RFC 6901) into the document
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"` // the error, and the remedy
}

// Error returns the problem on one line: place, rule, field, message.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteString(" ")
	}
	if p.Rule != "" {
		b.WriteString(p.Rule + ": ")
	}
	if field := p.Field(); field != "" {
		b.WriteString(field + ": ")
	}
	return b.String() + p.Message
}

// Field returns the field of the problem as people write it: "escalate[1].after".
func (p Problem) Field() string {
	var b strings.Builder
	for _, token := range strings.Split(p.Pointer, "/")[min(1, len(p.Pointer)):] {
		token = unescape.Replace(token)
		switch {
		case token != "" && strings.Trim(token, "0123456789") == "":
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

// MaxProblems is the largest number of listed problems of a text, and of collected problems of one document.
const MaxProblems = 100

// Problems are the errors of a text, in its order: up to maxProblems, and one more if others were left out. It is an
// error.
type Problems []Problem

// Error returns the problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// OrNil returns ps as an error, nil if it is empty.
func (ps Problems) OrNil() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// Listed returns as many of the problems as are listed.
func (ps Problems) Listed() Problems {
	if len(ps) <= MaxProblems {
		return ps
	}
	last := ps[MaxProblems]
	return append(ps[:MaxProblems:MaxProblems], Problem{
		Line: last.Line, Column: last.Column, Message: fmt.Sprintf("more problems follow; fix these %d first", MaxProblems),
	})
}

// near reports whether a problem is known already at the pointer, above or below it.
func (ps Problems) near(pointer string) bool {
	for _, p := range ps {
		if p.Pointer == pointer || strings.HasPrefix(pointer, p.Pointer+"/") || strings.HasPrefix(p.Pointer, pointer+"/") {
			return true
		}
	}
	return false
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// FieldPointer returns the pointer of a field below another.
func FieldPointer(pointer, field string) string { return pointer + "/" + escape.Replace(field) }

// ItemPointer returns the pointer of a list's item.
func ItemPointer(pointer string, i int) string { return fmt.Sprintf("%s/%d", pointer, i) }

// FieldOf returns a pointer as people write it.
func FieldOf(pointer string) string { return Problem{Pointer: pointer}.Field() }
