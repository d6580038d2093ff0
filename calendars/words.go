package calendars

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// words hands each word of a text such as "mon-fri, sun", or of a list of such texts, to read,
// whose error is what is wrong with it. like shows how one is written.
func (r *reader) words(n ast.Node, field, like string, read func(word string) error) {
	values, list := []ast.Node{n}, false
	if sequence, ok := n.(*ast.SequenceNode); ok {
		values, list = sequence.Values, true
	}
	if len(values) == 0 {
		r.problem(n, field, "the list is empty; write what belongs in it or leave it out")
	}
	for i, v := range values {
		at := field
		if list {
			at = fmt.Sprintf("%s[%d]", field, i)
		}
		s, ok := text(v)
		if !ok {
			r.problem(v, at, "YAML reads %s here; write it in quotes, such as %q", kind(v), like)
			continue
		}
		for word := range strings.SplitSeq(s, ",") {
			if err := read(strings.TrimSpace(word)); err != nil {
				r.problem(v, at, "%s", err)
			}
		}
	}
}
