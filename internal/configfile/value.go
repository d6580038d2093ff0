package configfile

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Value is a value of a file with its place. A value that is missing, or whose problem was reported, is empty: reading
// it returns the zero value without a further problem.
type Value struct {
	Name  string // of a mapping entry
	Field string // such as "routes[2].to"; empty: the file as a whole

	node  ast.Node     // nil: no value
	key   ast.Node     // nil: not in a mapping
	at    *token.Token // first token, including the name
	paper *paper       // nil: problems are ignored
}

// Problem reports a problem with its remedy at the value.
func (v Value) Problem(format string, args ...any) {
	if v.node != nil {
		v.paper.problem(start(v.node), v.Field, format, args...)
	}
}

// ProblemAtName reports a problem at the name of v.
func (v Value) ProblemAtName(format string, args ...any) {
	if v.paper != nil {
		v.paper.problem(v.at, v.Field, format, args...)
	}
}

// HasProblem reports whether v or a part of it has a problem.
func (v Value) HasProblem() bool {
	if v.paper == nil {
		return true
	}
	for _, p := range v.paper.problems {
		below, ok := strings.CutPrefix(p.Field, v.Field)
		if ok && (v.Field == "" || below == "" || below[0] == '.' || below[0] == '[') {
			return true
		}
	}
	return false
}

// Present reports whether v has a value.
func (v Value) Present() bool { return v.node != nil }

// Require returns v and reports a problem if it is missing; remedy tells the author what to write.
func (v Value) Require(remedy string) Value {
	if v.node == nil && v.paper != nil {
		v.paper.problem(v.at, v.Field, "%s is missing; %s", v.Name, remedy)
	}
	return v
}

// Key returns the name of v as a value with its place.
func (v Value) Key() Value {
	if v.key != nil {
		v.node = v.key
	}
	return v
}

// Kind returns the kind of v for messages: "a number".
func (v Value) Kind() string {
	switch n := v.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "a boolean"
	case nil, *ast.NullNode:
		return "no value"
	default:
		return "a YAML " + n.Type().YAMLName()
	}
}

// IsMapping reports whether v is a mapping.
func (v Value) IsMapping() bool {
	_, ok := mapping(v.node)
	return ok
}

// Empty reports whether v is an empty list or mapping.
func (v Value) Empty() bool {
	values, mapping := mapping(v.node)
	list, ok := v.node.(*ast.SequenceNode)
	return mapping && len(values) == 0 || ok && len(list.Values) == 0
}

// List returns the items of v, which must be a list; what names an item in a problem.
func (v Value) List(what string) []Value {
	if _, ok := v.node.(*ast.SequenceNode); v.node != nil && !ok {
		v.Problem(`expected a list, not %s; begin each %s with "- "`, v.Kind(), what)
		return nil
	}
	return v.items()
}

// OneOrList returns the items of v, at least one; a single value is its only item.
func (v Value) OneOrList() []Value {
	if _, ok := v.node.(*ast.SequenceNode); v.node != nil && !ok {
		return []Value{v}
	}
	if v.Empty() {
		v.Problem("the list is empty; add an entry, or leave the field out")
	}
	return v.items()
}

func (v Value) items() []Value {
	list, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return nil
	}
	items := make([]Value, len(list.Values))
	for i, n := range list.Values {
		items[i] = Value{Field: fmt.Sprintf("%s[%d]", v.Field, i), node: n, at: start(n), paper: v.paper}
	}
	return items
}

// start returns the first token of a value.
func start(n ast.Node) *token.Token {
	if values, ok := mapping(n); ok && len(values) > 0 && n.GetToken().Type != token.MappingStartType {
		return values[0].Key.GetToken()
	}
	return n.GetToken()
}

// mapping returns the entries of a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}
