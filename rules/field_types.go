package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"github.com/expr-lang/expr/ast"
)

// fieldUse is one place in an expression that assumes a kind for a field of an event.
type fieldUse struct {
	state bool          // of the state, not of the event
	path  []string      // names, and Each for an item of a list
	kind  document.Kind // the assumed kind; empty: unknown
}

// String returns the field as authors write it: event.items[].price.
func (u fieldUse) String() string {
	s := nameEvent
	if u.state {
		s = nameState
	}
	for _, p := range u.path {
		if p != document.Each {
			s += "."
		}
		s += p
	}
	return s
}

// usesOf returns the uses of an expression as it is written, with its types known. An impossible use is an error: no
// field of an event is a time or a duration.
func usesOf(root ast.Node, d exprEnv) ([]fieldUse, error) {
	w := &fieldUses{}
	w.walk(root)
	switch d.yields {
	case truth:
		w.take(root, document.Boolean)
	case amount:
		w.take(root, document.Number)
	case instant, perhaps:
		if counts(root) {
			w.refuse("%s must be a time, not a number; write date(…) around it", d.place)
		}
		w.take(root, document.Time)
	case span:
		if counts(root) {
			w.refuse("%s must be a duration, not a number; write hours(…) or minutes(…) around it", d.place)
		}
		for _, u := range w.where(root) {
			w.refuse("%s is text or a number, not a duration; write duration(%s) or hours(%s)", u, u, u)
		}
	}
	return w.found, w.err
}

// fieldUses collects the uses of an expression on a walk through its tree.
type fieldUses struct {
	found []fieldUse
	items [][]fieldUse // the fields that "#" represents, the innermost last
	err   error
}

func (w *fieldUses) refuse(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// take records that the fields that n yields are assumed to have a kind.
func (w *fieldUses) take(n ast.Node, k document.Kind) {
	for _, u := range w.where(n) {
		u.kind = k
		w.found = append(w.found, u)
	}
}

// where returns the fields that n may yield; none if it is computed.
func (w *fieldUses) where(n ast.Node) []fieldUse {
	switch v := n.(type) {
	case *ast.IdentifierNode:
		if v.Value == nameEvent || v.Value == nameState {
			return []fieldUse{{state: v.Value == nameState}}
		}
	case *ast.ChainNode:
		return w.where(v.Node)
	case *ast.PointerNode:
		if v.Name == "" && len(w.items) > 0 {
			return w.items[len(w.items)-1]
		}
	case *ast.MemberNode:
		return below(w.where(v.Node), v.Property)
	case *ast.ConditionalNode:
		return either(w.where(v.Exp1), w.where(v.Exp2))
	case *ast.BinaryNode:
		if v.Operator == "??" {
			return either(w.where(v.Left), w.where(v.Right))
		}
	case *ast.BuiltinNode:
		switch v.Name {
		case "filter":
			return w.where(v.Arguments[0])
		case "first", "last", "find", "findLast":
			return itemsOf(w.where(v.Arguments[0]))
		case "get":
			return below(w.where(v.Arguments[0]), v.Arguments[1])
		}
	}
	return nil
}

// maxUses bounds how many fields a value is followed to. Nested choices multiply them.
const maxUses = 64

func either(a, b []fieldUse) []fieldUse {
	if len(a)+len(b) > maxUses {
		return nil
	}
	return slices.Concat(a, b)
}

// below returns the fields that a property of the given fields names; none if it is computed.
func below(of []fieldUse, property ast.Node) []fieldUse {
	switch p := property.(type) {
	case *ast.StringNode:
		return extended(of, p.Value)
	case *ast.IntegerNode, *ast.UnaryNode:
		return itemsOf(of)
	}
	return nil
}

func itemsOf(of []fieldUse) []fieldUse { return extended(of, document.Each) }

func extended(of []fieldUse, name string) []fieldUse {
	all := make([]fieldUse, len(of))
	for i, u := range of {
		all[i] = fieldUse{state: u.state, path: append(slices.Clone(u.path), name)}
	}
	return all
}

// walk records the kinds that each part of the tree assumes for its operands.
func (w *fieldUses) walk(n ast.Node) {
	switch v := n.(type) {
	case *ast.ChainNode:
		w.walk(v.Node)
	case *ast.MemberNode:
		w.member(v)
	case *ast.UnaryNode:
		w.walk(v.Node)
		w.take(v.Node, map[bool]document.Kind{true: document.Number, false: document.Boolean}[v.Operator == "-" || v.Operator == "+"])
	case *ast.BinaryNode:
		w.walk(v.Left)
		w.walk(v.Right)
		w.binary(v)
	case *ast.ConditionalNode:
		w.all(v.Cond, v.Exp1, v.Exp2)
		w.take(v.Cond, document.Boolean)
	case *ast.CallNode:
		w.all(v.Arguments...)
		w.call(v)
	case *ast.BuiltinNode:
		w.builtin(v)
	case *ast.ArrayNode:
		w.all(v.Nodes...)
	case *ast.MapNode:
		w.all(v.Pairs...)
	case *ast.PairNode:
		w.all(v.Key, v.Value)
	case *ast.SliceNode:
		w.all(v.Node)
	}
}

func (w *fieldUses) all(nodes ...ast.Node) {
	for _, n := range nodes {
		w.walk(n)
	}
}

func (w *fieldUses) member(v *ast.MemberNode) {
	w.all(v.Node, v.Property)
	switch v.Property.(type) {
	case *ast.StringNode:
		w.take(v.Node, document.Object)
	case *ast.IntegerNode, *ast.UnaryNode:
		w.take(v.Node, document.List)
	}
	w.found = append(w.found, below(w.where(v.Node), v.Property)...) // it is read, for any purpose
}

var comparing = []string{"==", "!=", "<", "<=", ">", ">="}

func (w *fieldUses) binary(v *ast.BinaryNode) {
	switch op := v.Operator; {
	case slices.Contains(comparing, op), op == "??":
		w.pair(v)
	case op == "+":
		w.pair(v)
	case slices.Contains([]string{"-", "*", "/", "%", "**", "^"}, op):
		w.pair(v)
		if kindIn(v.Left) != document.Time && kindIn(v.Right) != document.Time {
			w.take(v.Left, document.Number)
			w.take(v.Right, document.Number)
		}
	case slices.Contains([]string{"and", "&&", "or", "||"}, op):
		w.take(v.Left, document.Boolean)
		w.take(v.Right, document.Boolean)
	case slices.Contains([]string{"contains", "startsWith", "endsWith", "matches"}, op):
		w.take(v.Left, document.Text)
		w.take(v.Right, document.Text)
	case op == "in":
		if list, ok := v.Right.(*ast.ArrayNode); ok {
			for _, item := range list.Nodes {
				w.take(v.Left, kindIn(item))
			}
		}
	}
}

// pair assumes for each side the kind of the other.
func (w *fieldUses) pair(v *ast.BinaryNode) {
	w.side(v.Left, v.Right, v.Operator)
	w.side(v.Right, v.Left, v.Operator)
}

func (w *fieldUses) side(n, other ast.Node, op string) {
	if op == "??" {
		if k := kindIn(other); k != document.Time {
			w.take(n, k)
		}
		return
	}
	of := other.Type()
	for _, u := range w.where(n) {
		switch {
		case of == reflect.TypeFor[time.Time]():
			w.refuse("%s is text or a number in an event, never a time; write date(%s)", u, u)
		case of == reflect.TypeFor[time.Duration]() && (op == "+" || op == "-"):
			w.refuse("%s is text or a number in an event, to which no duration can be added; write date(%s) or duration(%s)", u, u, u)
		case of == reflect.TypeFor[time.Duration]() && slices.Contains(comparing, op):
			w.refuse("%s is text or a number in an event, never a duration; write duration(%s) or hours(%s)", u, u, u)
		}
	}
	if k := kindIn(other); k != document.Time {
		w.take(n, k)
	}
}

// counts reports whether n is a number by the way it is computed.
func counts(n ast.Node) bool {
	v, ok := n.(*ast.BinaryNode)
	if !ok {
		return isNumber(n.Type())
	}
	l, r := kindIn(v.Left), kindIn(v.Right)
	switch v.Operator {
	case "*", "/", "%", "**", "^":
		return l != document.Time && r != document.Time
	case "+", "-":
		return counts(v.Left) || counts(v.Right)
	}
	return false
}

// kindIn returns the kind that a part of an expression yields, as far as it is known when it is saved.
func kindIn(n ast.Node) document.Kind {
	switch t := n.Type(); {
	case t == reflect.TypeFor[time.Time](), t == reflect.TypeFor[time.Duration]():
		return document.Time
	case t.Kind() == reflect.String:
		return document.Text
	case isNumber(t):
		return document.Number
	case t.Kind() == reflect.Bool:
		return document.Boolean
	}
	return ""
}

// taken maps our functions and the library's to the kind of their first argument.
var taken = map[string]document.Kind{
	"date": document.Time, "duration": document.Text, "trim": document.Text, "days": document.Number, "hours": document.Number, "minutes": document.Number, "seconds": document.Number,
	"upper": document.Text, "lower": document.Text, "split": document.Text, "indexOf": document.Text, "lastIndexOf": document.Text, "hasPrefix": document.Text, "hasSuffix": document.Text,
	"abs": document.Number, "ceil": document.Number, "floor": document.Number, "round": document.Number, "keys": document.Object, "values": document.Object, "first": document.List, "last": document.List,
	"type": document.Any, // an expression that tests the type may read it as several
}

func (w *fieldUses) call(v *ast.CallNode) {
	if name, ok := v.Callee.(*ast.IdentifierNode); ok && len(v.Arguments) > 0 {
		if k, known := taken[name.Value]; known {
			w.take(v.Arguments[0], k)
		}
	}
}

// builtin records the kind of a function's first argument, and walks its predicate with the items of that argument.
func (w *fieldUses) builtin(v *ast.BuiltinNode) {
	if len(v.Arguments) == 0 {
		return
	}
	w.walk(v.Arguments[0])
	if k, known := taken[v.Name]; known {
		w.take(v.Arguments[0], k)
	}
	for _, argument := range v.Arguments[1:] {
		predicate, ok := argument.(*ast.PredicateNode)
		if !ok {
			w.walk(argument)
			continue
		}
		w.take(v.Arguments[0], document.List)
		w.items = append(w.items, itemsOf(w.where(v.Arguments[0])))
		w.walk(predicate.Node)
		if !slices.Contains([]string{"map", "sum"}, v.Name) {
			w.take(predicate.Node, document.Boolean)
		}
		if v.Name == "sum" {
			w.take(predicate.Node, document.Number)
		}
		w.items = w.items[:len(w.items)-1]
	}
}

// key distinguishes uses of different fields.
func (u fieldUse) key() string { return strings.Join(u.path, "\x00") }
