package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
)

// astChecker walks the tree of an expression. It refuses unbounded operations, and inserts our own strict comparisons
// and the meter.
type astChecker struct {
	dialect  exprEnv
	patterns map[string]*pattern // by their texts
	reads    map[string]bool
	wild     bool // the expression reads tokens that wildcards matched
	err      error
}

func (g *astChecker) refuse(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// Visit is called for each node, children first.
func (g *astChecker) Visit(n *ast.Node) {
	switch v := (*n).(type) {
	case *ast.IdentifierNode:
		g.identifier(v)
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		g.refuse("variables and sequences are not part of the language; write one expression")
	case *ast.CallNode:
		g.call(n, v)
	case *ast.MemberNode:
		if t := v.Node.Type(); t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[time.Duration]() {
			g.refuse("%s has no fields; compare it with another one", typeName(t))
		}
	case *ast.BuiltinNode:
		g.builtin(v)
	case *ast.BinaryNode:
		g.binary(n, v)
	}
}

func (g *astChecker) identifier(v *ast.IdentifierNode) {
	if v.Value == "$env" {
		g.refuse(`"$env" is not part of the language; name what you read, such as event.total`)
	}
	if g.dialect.names[v.Value] != nil && !strings.HasPrefix(v.Value, "=") {
		if g.reads == nil {
			g.reads = make(map[string]bool)
		}
		g.reads[v.Value] = true
	}
}

func (g *astChecker) call(n *ast.Node, v *ast.CallNode) {
	name, ok := v.Callee.(*ast.IdentifierNode)
	if !ok {
		g.refuse("only the functions of the language can be called, and no methods")
		return
	}
	if name.Value == "wildcard" {
		g.wildcard(n, v)
	}
	if check := constants[name.Value]; check != nil && len(v.Arguments) == 1 {
		if s, ok := v.Arguments[0].(*ast.StringNode); ok {
			if err := check(s.Value); err != nil {
				g.refuse("%s", err.Error())
			}
		}
	}
}

// wildcard replaces the call with the token that a wildcard matched.
func (g *astChecker) wildcard(n *ast.Node, v *ast.CallNode) {
	number, written := v.Arguments[0].(*ast.IntegerNode)
	known := wildcardsIn(g.dialect.subject)
	switch {
	case !g.dialect.hand:
		g.refuse("wildcard(…) can't be read here: only key, if, since, distinct and need read the subject; take it from event or key")
	case !written:
		g.refuse("the number of a wildcard must be written out, such as wildcard(1)")
	case known == 0:
		g.refuse("%q has no wildcards; take the value from the event", clip(g.dialect.subject, 80))
	case number.Value < 1 || number.Value > known:
		g.refuse("wildcard(%d) is not one of %q, which has %d, counted from 1", number.Value, clip(g.dialect.subject, 80), known)
	}
	g.wild = true
	ast.Patch(n, invoke(funcToken, &ast.IdentifierNode{Value: nameWild}, v.Arguments[0]))
}

// builtin meters the loops, and refuses functions of the library that are not ours.
func (g *astChecker) builtin(v *ast.BuiltinNode) {
	if !slices.Contains(builtins, v.Name) {
		g.refuse("%q is not part of the language; use one of its functions, such as any, all, count or sum", v.Name)
	}
	for _, argument := range v.Arguments {
		if body, ok := argument.(*ast.PredicateNode); ok {
			body.Node = metered(body.Node)
		}
	}
}

func (g *astChecker) binary(n *ast.Node, v *ast.BinaryNode) {
	switch v.Operator {
	case "..":
		g.refuse(`ranges ("..") are not part of the language; compare with <= and >=`)
	case "matches":
		if text, ok := v.Right.(*ast.StringNode); ok {
			ast.Patch(n, invoke(funcMatch, &ast.IdentifierNode{Value: nameMeter}, &ast.ConstantNode{Value: g.patterns[text.Value]}, v.Left))
		}
	case "==", "!=":
		g.compare(n, v)
	case "in":
		ast.Patch(n, invoke(funcIn, &ast.IdentifierNode{Value: nameMeter}, v.Left, v.Right))
	case "/":
		ast.Patch(n, invoke(funcDivide, v.Left, v.Right))
	case "+":
		if wide(v.Left) && wide(v.Right) {
			ast.Patch(n, invoke(funcAdd, &ast.IdentifierNode{Value: nameMeter}, v.Left, v.Right))
		}
	}
	if g.dialect.literal {
		g.literal(v)
	}
}

// literal refuses arithmetic with numbers that are text here.
func (g *astChecker) literal(v *ast.BinaryNode) {
	if slices.Contains([]string{"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "**", "^"}, v.Operator) {
		l, r := v.Left.Type(), v.Right.Type()
		if isNumber(l) && oneOf(r, reflect.Interface) || isNumber(r) && oneOf(l, reflect.Interface) {
			g.refuse("in a key the numbers of an event are text, so that no digit is lost; write int(…) around the one you count with")
		}
	}
}

func isNumber(t reflect.Type) bool { return oneOf(t, reflect.Int, reflect.Float64) }

// compare makes == and != strict, unless both types are known or one side is a literal nil.
func (g *astChecker) compare(n *ast.Node, v *ast.BinaryNode) {
	_, nilLeft := v.Left.(*ast.NilNode)
	_, nilRight := v.Right.(*ast.NilNode)
	if nilLeft || nilRight || settled(v.Left) && settled(v.Right) {
		return
	}
	name := funcEqual
	if v.Operator == "!=" {
		name = funcDiffer
	}
	compared(v)
	ast.Patch(n, invoke(name, v.Left, v.Right))
}

func settled(n ast.Node) bool { return !oneOf(n.Type(), reflect.Interface) }

// wide reports whether adding to n may make a text longer.
func wide(n ast.Node) bool { return oneOf(n.Type(), reflect.Interface, reflect.String) }

func invoke(name string, args ...ast.Node) *ast.CallNode {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// metered makes the body of a predicate count its rounds, and the bytes that it reads in each.
func metered(body ast.Node) ast.Node {
	ast.Walk(&body, costPatcher{})
	call := invoke(funcTick, &ast.IdentifierNode{Value: nameMeter}, body)
	call.SetLocation(body.Location())
	return call
}

// costPatcher inserts a measurement before operations that take longer the longer their first argument is.
type costPatcher struct{}

// Visit is called for each node of the body.
func (costPatcher) Visit(n *ast.Node) {
	switch v := (*n).(type) {
	case *ast.BuiltinNode:
		switch v.Name {
		case "split":
			measured(&v.Arguments[0], costly)
		case "keys", "values":
			measured(&v.Arguments[0], ofNames)
		case "string", "min", "max", "mean": // they go through lists within lists
			for i := range v.Arguments {
				weighed(&v.Arguments[i])
			}
		default:
			measured(&v.Arguments[0], cheap)
		}
	case *ast.CallNode:
		if calls(v, "trim") {
			measured(&v.Arguments[0], cheap)
		}
	case *ast.BinaryNode:
		switch v.Operator {
		case "contains", "startsWith", "endsWith":
			measured(&v.Left, cheap)
		case "<", "<=", ">", ">=":
			compared(v)
		}
	}
}

// The numbers of bytes that make a round.
const (
	quick   = 256
	cheap   = 64
	ofNames = 16
	costly  = 4
)

// compared inserts a measurement before a comparison of two texts that may be long.
func compared(v *ast.BinaryNode) {
	if wide(v.Left) && wide(v.Right) && !isLiteral(v.Left) && !isLiteral(v.Right) {
		measured(&v.Left, quick)
	}
}

// isLiteral reports whether a value is a literal, and so is short.
func isLiteral(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NilNode, *ast.ConstantNode:
		return true
	}
	return false
}

func measured(n *ast.Node, bytes int) {
	if !calls(*n, funcMeasure) {
		ast.Patch(n, invoke(funcMeasure, &ast.IdentifierNode{Value: nameMeter}, &ast.IntegerNode{Value: bytes}, *n))
	}
}

func weighed(n *ast.Node) {
	if !calls(*n, funcWeigh) && !isLiteral(*n) {
		ast.Patch(n, invoke(funcWeigh, &ast.IdentifierNode{Value: nameMeter}, *n))
	}
}

// calls reports whether a node calls the named function.
func calls(n ast.Node, function string) bool {
	call, ok := n.(*ast.CallNode)
	if !ok {
		return false
	}
	name, ok := call.Callee.(*ast.IdentifierNode)
	return ok && name.Value == function
}
