package rules

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// Bounds of an expression.
const (
	MaxExpression = 4 << 10 // bytes
	maxBrackets   = 32      // levels
	maxNodes      = 256
	maxMatches    = 4      // regular expressions
	maxMemory     = 50_000 // of the machine's units, about one a value
)

// expression is text that was checked and compiled. It is safe for concurrent use.
type expression struct {
	source  string
	dialect dialect
	program *vm.Program
	event   bool // it reads the event
	state   bool // it reads the state
}

// compileExpression checks the text against its dialect. Errors are for people.
func compileExpression(source string, d dialect) (x *expression, err error) {
	if err := scanExpression(source); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			x, err = nil, fmt.Errorf("the expression can't be compiled: %v", r)
		}
	}()
	// The types are checked before the tree is changed: calls that a patch puts in hide
	// what is wrong in their arguments.
	if _, err := expr.Compile(source, append(options(d), expr.Optimize(false))...); err != nil {
		return nil, explain(err, d)
	}
	g := &guard{dialect: d}
	program, err := expr.Compile(source, append(options(d), expr.Patch(g))...)
	if g.err != nil {
		return nil, g.err
	}
	if err != nil {
		return nil, explain(err, d)
	}
	x = &expression{source: source, dialect: d, program: program, event: g.reads[nameEvent], state: g.reads[nameState]}
	return x, x.checkResult(g)
}

func options(d dialect) []expr.Option {
	all := append([]expr.Option{
		expr.Env(d.names), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(),
	}, functions(d)...)
	for _, name := range builtins {
		all = append(all, expr.EnableBuiltin(name))
	}
	return all
}

// checkResult refuses an expression whose result is known beforehand, or of no use.
func (x *expression) checkResult(g *guard) error {
	t := x.program.Node().Type()
	switch {
	case x.dialect.bool && !oneOf(t, reflect.Bool, reflect.Interface):
		return fmt.Errorf("a condition has to be true or false, not %s", typeName(t))
	case x.dialect.bool && len(g.reads) == 0:
		return errors.New("the condition reads nothing, so it is always the same; compare a field, such as event.total > 0")
	case x.dialect.instant && !oneOf(t, reflect.String, reflect.Interface) && t != reflect.TypeFor[time.Time]():
		return fmt.Errorf("since has to be an instant, not %s; write event.placed_at or date(…)", typeName(t))
	case x.dialect.literal && !oneOf(t, reflect.String, reflect.Int, reflect.Interface):
		return fmt.Errorf("a key has to be text or a whole number, not %s", typeName(t))
	}
	return nil
}

func oneOf(t reflect.Type, kinds ...reflect.Kind) bool { return slices.Contains(kinds, t.Kind()) }

// scanExpression refuses what would take the parser long or deep before it sees it.
func scanExpression(s string) error {
	if len(s) > MaxExpression {
		return fmt.Errorf("the expression has %d bytes, the most is %d", len(s), MaxExpression)
	}
	if !utf8.ValidString(s) {
		return errors.New("the expression is not UTF-8 text")
	}
	depth := 0
	for _, c := range []byte(s) {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth > maxBrackets {
			return fmt.Errorf("the expression is nested deeper than %d brackets; make it simpler", maxBrackets)
		}
	}
	return nil
}

// explain says in words of the rule language what the compiler found.
func explain(err error, d dialect) error {
	message := err.Error()
	var at *file.Error
	if errors.As(err, &at) {
		message = fmt.Sprintf("%s (at character %d)", at.Message, at.Column+1)
		if name, ok := strings.CutPrefix(at.Message, "unknown name "); ok {
			return fmt.Errorf("%s (at character %d)", unknownName(name, d), at.Column+1)
		}
	}
	switch {
	case strings.Contains(message, `Operator("=")`):
		message += `; to compare, write "=="`
	case strings.Contains(message, "unexpected token EOF"):
		message = `the expression ends too early; close what is open, and quote the whole if " #" is in it`
	case strings.Contains(message, "maximum allowed nodes"):
		message = fmt.Sprintf("the expression has more than %d parts; make it simpler", maxNodes)
	}
	return errors.New(message)
}

func unknownName(name string, d dialect) string {
	var known []string
	for n := range d.names {
		if n != nameMeter {
			known = append(known, n)
		}
	}
	slices.Sort(known)
	switch {
	case name == "now":
		return "there is no clock in an expression; use since, or a step's after"
	case name == "wildcard":
		return `"wildcard" is not supported yet by this version; take the key from the event`
	case d.names[name] == nil && slices.Contains([]string{nameEvent, nameState, nameKey, nameSince, nameStep}, name):
		return fmt.Sprintf("%q can't be read here, only %s", name, strings.Join(known, ", "))
	}
	if near := nearest(name, append(functionNames(), known...)); near != "" {
		return fmt.Sprintf("unknown name %q; did you mean %q?", clip(name, 40), near)
	}
	return fmt.Sprintf("unknown name %q; an expression reads %s, as in event.%s", clip(name, 40), strings.Join(known, ", "), clip(name, 40))
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "a time"
	case t == reflect.TypeFor[time.Duration]():
		return "a duration"
	case oneOf(t, reflect.String):
		return "text"
	case oneOf(t, reflect.Bool):
		return "true or false"
	case oneOf(t, reflect.Int, reflect.Float64):
		return "a number"
	case oneOf(t, reflect.Slice, reflect.Array):
		return "a list"
	}
	return "an object"
}

// guard walks the tree of an expression: it refuses what can't be bounded, and puts our
// own strict comparisons and the meter in.
type guard struct {
	dialect dialect
	reads   map[string]bool
	regexps int
	err     error
}

func (g *guard) refuse(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// Visit is called for each node, children first.
func (g *guard) Visit(n *ast.Node) {
	switch v := (*n).(type) {
	case *ast.IdentifierNode:
		g.identifier(v)
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		g.refuse("variables and sequences are not part of the language; write one expression")
	case *ast.CallNode:
		g.call(v)
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

func (g *guard) identifier(v *ast.IdentifierNode) {
	if v.Value == "$env" {
		g.refuse(`"$env" is not part of the language; name what you read, such as event.total`)
	}
	if g.dialect.names[v.Value] != nil {
		if g.reads == nil {
			g.reads = make(map[string]bool)
		}
		g.reads[v.Value] = true
	}
}

func (g *guard) call(v *ast.CallNode) {
	name, ok := v.Callee.(*ast.IdentifierNode)
	if !ok {
		g.refuse("only the functions of the language can be called, and no methods")
		return
	}
	if check := constants[name.Value]; check != nil && len(v.Arguments) == 1 {
		if s, ok := v.Arguments[0].(*ast.StringNode); ok {
			if err := check(s.Value); err != nil {
				g.refuse("%s", err.Error())
			}
		}
	}
}

// builtin meters the loops, and refuses the library's functions that are not ours.
func (g *guard) builtin(v *ast.BuiltinNode) {
	if !slices.Contains(builtins, v.Name) {
		g.refuse("%q is not part of the language; use one of its functions, such as any, all, count or sum", v.Name)
	}
	for _, argument := range v.Arguments {
		if body, ok := argument.(*ast.PredicateNode); ok {
			_ = body
		}
	}
}

func (g *guard) binary(n *ast.Node, v *ast.BinaryNode) {
	switch v.Operator {
	case "..":
		g.refuse(`ranges ("..") are not part of the language; compare with <= and >=`)
	case "matches":
		g.regexps++
		if _, ok := v.Right.(*ast.StringNode); !ok {
			g.refuse(`the pattern of "matches" has to be written out, not taken from an event`)
		}
		if g.regexps > maxMatches {
			g.refuse(`more than %d "matches" in one expression; join them with "|"`, maxMatches)
		}
	case "==", "!=":
		g.compare(n, v)
	case "in":
		ast.Patch(n, invoke(funcIn, &ast.IdentifierNode{Value: nameMeter}, v.Left, v.Right))
	case "+":
		if wide(v.Left) && wide(v.Right) {
			ast.Patch(n, invoke(funcAdd, v.Left, v.Right))
		}
	}
	if g.dialect.literal {
		g.literal(v)
	}
}

// literal refuses to count with numbers that are text here.
func (g *guard) literal(v *ast.BinaryNode) {
	if slices.Contains([]string{"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "**", "^"}, v.Operator) {
		l, r := v.Left.Type(), v.Right.Type()
		if isNumber(l) && oneOf(r, reflect.Interface) || isNumber(r) && oneOf(l, reflect.Interface) {
			g.refuse("in a key the numbers of an event are text, so that no digit is lost; write int(…) around the one you count with")
		}
	}
}

func isNumber(t reflect.Type) bool { return oneOf(t, reflect.Int, reflect.Float64) }

// compare makes == and != strict, unless both types are known or a side is written as nil.
func (g *guard) compare(n *ast.Node, v *ast.BinaryNode) {
	_, nilLeft := v.Left.(*ast.NilNode)
	_, nilRight := v.Right.(*ast.NilNode)
	if nilLeft || nilRight || settled(v.Left) && settled(v.Right) {
		return
	}
	name := funcEqual
	if v.Operator == "!=" {
		name = funcDiffer
	}
	ast.Patch(n, invoke(name, v.Left, v.Right))
}

func settled(n ast.Node) bool { return !oneOf(n.Type(), reflect.Interface) }

// wide reports whether adding to n may make a text longer.
func wide(n ast.Node) bool { return oneOf(n.Type(), reflect.Interface, reflect.String) }

func invoke(name string, args ...ast.Node) *ast.CallNode {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// metered makes the body of a predicate count its rounds, and what it reads in each.
func metered(body ast.Node) ast.Node {
	ast.Walk(&body, measuring{})
	call := invoke(funcTick, &ast.IdentifierNode{Value: nameMeter}, body)
	call.SetLocation(body.Location())
	return call
}

// measuring puts a measure before what takes longer the longer its first argument is.
type measuring struct{}

// Visit is called for each node of the body.
func (measuring) Visit(n *ast.Node) {
	switch v := (*n).(type) {
	case *ast.BuiltinNode:
		switch v.Name {
		case "split":
			measured(&v.Arguments[0], costly)
		default:
			measured(&v.Arguments[0], cheap)
		}
	case *ast.BinaryNode:
		switch v.Operator {
		case "contains", "startsWith", "endsWith":
			measured(&v.Left, cheap)
		case "matches":
			measured(&v.Left, costly)
		}
	}
}

// How many bytes make a round.
const (
	cheap  = 64
	costly = 4
)

func measured(n *ast.Node, bytes int) {
	if call, ok := (*n).(*ast.CallNode); ok {
		if name, ok := call.Callee.(*ast.IdentifierNode); ok && name.Value == funcMeasure {
			return
		}
	}
	ast.Patch(n, invoke(funcMeasure, &ast.IdentifierNode{Value: nameMeter}, &ast.IntegerNode{Value: bytes}, *n))
}
