package configfile

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Value is a value of a file, with its place. What is not there, or is wrong and was said to
// be, is a Value too: it reads as nothing, and nothing more is said about it.
type Value struct {
	Name  string // of an entry in a mapping
	Field string // such as "routes[2].to"; empty: the file as a whole

	node  ast.Node     // nil: there is none
	key   ast.Node     // nil: not of a mapping
	at    *token.Token // where it begins, with its name
	paper *paper       // nil: all is said
}

// Problem notes what is wrong with v, and what to write instead, at the value.
func (v Value) Problem(format string, args ...any) {
	if v.node != nil {
		v.paper.problem(start(v.node), v.Field, format, args...)
	}
}

// ProblemAtName is Problem, at the name that v has.
func (v Value) ProblemAtName(format string, args ...any) {
	if v.paper != nil {
		v.paper.problem(v.at, v.Field, format, args...)
	}
}

// HasProblem reports whether a problem is known with v or with a part of it.
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

// Present reports whether there is a value to read.
func (v Value) Present() bool { return v.node != nil }

// Require is v, having noted where it is missing; remedy is what to write.
func (v Value) Require(remedy string) Value {
	if v.node == nil && v.paper != nil {
		v.paper.problem(v.at, v.Field, "%s is missing; %s", v.Name, remedy)
	}
	return v
}

// Key is the name of v as a value of its own, in the place that it has.
func (v Value) Key() Value {
	if v.key != nil {
		v.node = v.key
	}
	return v
}

// Kind is how messages name what v is: "a number".
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

// Empty reports whether v is a list or a mapping with nothing in it.
func (v Value) Empty() bool {
	values, mapping := mapping(v.node)
	list, ok := v.node.(*ast.SequenceNode)
	return mapping && len(values) == 0 || ok && len(list.Values) == 0
}

// List is the items of v, which has to be a list; each is what.
func (v Value) List(what string) []Value {
	if _, ok := v.node.(*ast.SequenceNode); v.node != nil && !ok {
		v.Problem(`expected a list, not %s; begin each %s with "- "`, v.Kind(), what)
		return nil
	}
	return v.items()
}

// OneOrList is the items of v, which has to have some; what is no list is the only one.
func (v Value) OneOrList() []Value {
	if _, ok := v.node.(*ast.SequenceNode); v.node != nil && !ok {
		return []Value{v}
	}
	if v.Empty() {
		v.Problem("the list is empty; write what belongs in it or leave it out")
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

// start is where a value begins.
func start(n ast.Node) *token.Token {
	if values, ok := mapping(n); ok && len(values) > 0 && n.GetToken().Type != token.MappingStartType {
		return values[0].Key.GetToken()
	}
	return n.GetToken()
}

// mapping is the entries of a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}
