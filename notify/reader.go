package notify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"deadman/rules"
)

// MaxSize is the most bytes that a file of channels may have.
const MaxSize = 256 << 10

// reader reads YAML strictly, and notes all that is wrong on the way.
type reader struct {
	problems Problems
	dir      string // that names of files are relative to
}

func (r *reader) problem(tk *token.Token, field, format string, args ...any) {
	r.problems = append(r.problems, Problem{
		Line: tk.Position.Line, Column: tk.Position.Column, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

// document is the one document of a text; nil: there is none, or it cannot be read.
func (r *reader) document(data []byte) ast.Node {
	whole := func(format string, args ...any) ast.Node {
		r.problems = append(r.problems, Problem{Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)})
		return nil
	}
	if len(data) > MaxSize {
		return whole("the file has %d bytes, and the limit is %d; leave out what no route uses", len(data), MaxSize)
	}
	if !utf8.Valid(data) {
		return whole("the file is not UTF-8; save it as UTF-8")
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	var syntax yaml.Error
	switch {
	case errors.As(err, &syntax) && syntax.GetToken() != nil:
		r.problem(syntax.GetToken(), "", "not YAML: %s", syntax.GetMessage())
		return nil
	case err != nil:
		return whole("not YAML: %v", err)
	case len(file.Docs) > 1:
		r.problem(file.Docs[1].GetToken(), "", "the file holds one document; write it without ---")
		return nil
	case len(file.Docs) == 0:
		return nil
	}
	switch file.Docs[0].Body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	}
	return file.Docs[0].Body
}

// start is where a value begins.
func start(n ast.Node) *token.Token {
	if values, ok := entries(n); ok && len(values) > 0 && n.GetToken().Type != token.MappingStartType {
		return values[0].Key.GetToken()
	}
	return n.GetToken()
}

func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// each hands on the names of a mapping and their values.
func (r *reader) each(n ast.Node, field, what string, read func(name string, key *token.Token, value ast.Node, field string)) {
	values, ok := entries(n)
	if !ok {
		r.problem(start(n), field, "expected a mapping with %s", what)
		return
	}
	seen := make(map[string]bool)
	for _, v := range values {
		key := v.Key.GetToken()
		below := strings.TrimPrefix(field+"."+key.Value, ".")
		switch {
		case seen[key.Value]:
			r.problem(key, below, "%q is here twice; keep one", key.Value)
		case v.Value.Type() == ast.NullType:
			r.problem(key, below, "there is no value; give it one or leave it out")
		default:
			read(key.Value, key, v.Value, below)
		}
		seen[key.Value] = true
	}
}

// known is a field that a mapping may have.
type known struct {
	name string
	read func(n ast.Node, field string)
}

// fields hands each field of a mapping to its reader, and refuses others.
func (r *reader) fields(n ast.Node, field string, fields ...known) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	r.each(n, field, "the fields "+strings.Join(names, ", "), func(name string, key *token.Token, value ast.Node, field string) {
		i := slices.Index(names, name)
		if i >= 0 {
			fields[i].read(value, field)
			return
		}
		hint := "the fields here are " + strings.Join(names, ", ")
		if near := rules.Nearest(name, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		r.problem(key, field, "unknown field %q; %s", name, hint)
	})
}

func (r *reader) text(to *string) func(ast.Node, string) {
	return func(n ast.Node, field string) {
		switch v := n.(type) {
		case *ast.StringNode:
			*to = v.Value
		case *ast.LiteralNode:
			*to = v.Value.Value
		default:
			r.problem(start(n), field, "expected text; put it in quotes")
			return
		}
		if *to == "" || len(*to) > 512 {
			r.problem(start(n), field, "it has %d bytes; write 1 to 512, or leave it out", len(*to))
		}
	}
}

// texts reads a list of texts; one alone needs no list.
func (r *reader) texts(to *[]string) func(ast.Node, string) {
	return func(n ast.Node, field string) {
		items := []ast.Node{n}
		if list, ok := n.(*ast.SequenceNode); ok {
			items = list.Values
		}
		for i, item := range items {
			var s string
			field := fmt.Sprintf("%s[%d]", field, i)
			r.text(&s)(item, field)
			if slices.Contains(*to, s) {
				r.problem(start(item), field, "%q is here twice; keep one", s)
			}
			*to = append(*to, s)
		}
		if len(items) == 0 {
			r.problem(start(n), field, "the list is empty; name something, or leave it out")
		}
	}
}

func (r *reader) flag(to *bool) func(ast.Node, string) {
	return func(n ast.Node, field string) {
		v, ok := n.(*ast.BoolNode)
		if !ok {
			r.problem(start(n), field, "expected true or false")
			return
		}
		*to = v.Value
	}
}

// number reads a whole number from 1 to most.
func (r *reader) number(to *int, most uint64) func(ast.Node, string) {
	return func(n ast.Node, field string) {
		if v, ok := n.(*ast.IntegerNode); ok {
			if v, ok := v.Value.(uint64); ok && v >= 1 && v <= most {
				*to = int(v)
				return
			}
		}
		r.problem(start(n), field, "expected a whole number from 1 to %d", most)
	}
}

// span reads a duration up to most.
func (r *reader) span(to *time.Duration, most time.Duration) func(ast.Node, string) {
	return func(n ast.Node, field string) {
		if v, ok := n.(*ast.IntegerNode); ok && v.Value == uint64(0) {
			*to = 0
			return
		}
		v, ok := n.(*ast.StringNode)
		if !ok {
			r.problem(start(n), field, "expected a span with a unit, such as 30s or 5m")
			return
		}
		d, err := rules.ParseDuration(v.Value)
		switch {
		case err != nil:
			r.problem(start(n), field, "%v", err)
		case time.Duration(d) > most || d < 0:
			r.problem(start(n), field, "%s is not within 0s and %s", v.Value, most)
		default:
			*to = time.Duration(d)
		}
	}
}
