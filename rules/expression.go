package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

// Bounds of an expression.
const (
	maxBrackets = 32 // levels
	maxNodes    = 256
	maxMatches  = 4      // regular expressions
	maxMemory   = 50_000 // of the machine's units, about one a value
)

// expression is a text that was checked and compiled. It is safe for concurrent use.
type expression struct {
	source  string
	dialect exprEnv
	program *vm.Program
	event   bodies.Part
	state   bodies.Part
	reads   []string    // the names that it reads
	wild    bool        // it reads the tokens that the subject's wildcards matched
	bare    bool        // it is the key, as in most texts
	uses    []fieldUse  // the fields that it reads, and their assumed kinds
	sees    []readField // of a while: the fields that are reported to people
	traced  branch      // its branches; nil: they are not traced
}

// compileExpression checks the text against its environment. Errors are for people.
func compileExpression(source string, d exprEnv) (x *expression, err error) {
	select {
	case <-d.ended:
		return nil, errEnded
	default:
	}
	if err := scanExpression(source); err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			x, err = nil, fmt.Errorf("the expression can't be compiled: %v", r)
		}
	}()
	patterns, err := patternsOf(source, d.roomForPatterns())
	d.patterns, d.ended = nil, nil // they are no part of the kept environment
	if err != nil {
		return nil, err
	}
	// The types are checked before the tree is changed: calls that a patch inserts hide errors in their arguments.
	plain, err := expr.Compile(source, append(options(d), expr.Optimize(false))...)
	if err != nil {
		return nil, compileErrorOf(err, source, d)
	}
	g := &astChecker{dialect: d, patterns: patterns}
	program, err := expr.Compile(source, append(options(d), expr.Patch(g), expr.Patch(costPatcher{}))...)
	if g.err != nil {
		return nil, g.err
	}
	if err != nil {
		return nil, compileErrorOf(err, source, d)
	}
	x = &expression{
		source: source, dialect: d, program: program,
		event: extentOf(plain.Node(), nameEvent), state: extentOf(plain.Node(), nameState), reads: slices.Sorted(maps.Keys(g.reads)), wild: g.wild,
	}
	if name, is := plain.Node().(*ast.IdentifierNode); is {
		x.bare = name.Value == nameKey
	}
	if err := x.checkResult(plain.Node(), g); err != nil {
		return nil, err
	}
	if d.place == inWhile.place {
		x.sees = readFields(plain.Node())
	}
	x.uses, err = usesOf(plain.Node(), d)
	return x, err
}

// readsEvent reports whether the expression reads the event of the job.
func (x *expression) readsEvent() bool { return slices.Contains(x.reads, nameEvent) }

// weight returns the approximate memory of the expression, in bytes.
func (x *expression) weight() int {
	return weightOfExpression + len(x.source) + weightOfInstruction*len(x.program.Bytecode)
}

func options(d exprEnv) []expr.Option {
	all := append([]expr.Option{
		expr.Env(d.names), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(),
	}, functions(d)...)
	for _, name := range builtins {
		all = append(all, expr.EnableBuiltin(name))
	}
	return all
}

// checkResult refuses an expression with a constant or useless result.
func (x *expression) checkResult(root ast.Node, g *astChecker) error {
	t, place := x.program.Node().Type(), x.dialect.place
	reads := len(g.reads) > 0 || g.wild
	switch x.dialect.yields {
	case truth:
		if !oneOf(t, reflect.Bool, reflect.Interface) {
			return fmt.Errorf("a condition must be true or false, not %s", typeName(t))
		}
		if v := verdictOf(root); x.dialect.pauses && v.known && !v.value && v.reason == "" {
			return errors.New(document.NeverPauses)
		}
		if !reads {
			return errors.New("the condition reads nothing, so it is always the same; " + cmp.Or(x.dialect.constant, fmt.Sprintf(removeCondition, x.dialect.field("total"))))
		}
		return checkConstant(root)
	case instant, perhaps:
		if !oneOf(t, reflect.String, reflect.Interface) && t != reflect.TypeFor[time.Time]() {
			return fmt.Errorf("%s must be a time, not %s; write event.placed_at or date(…)", place, typeName(t))
		}
	case identity:
		if !oneOf(t, reflect.String, reflect.Int, reflect.Interface) {
			return fmt.Errorf("a key must be text or a whole number, not %s", typeName(t))
		}
	case amount:
		if !oneOf(t, reflect.Int, reflect.Float64, reflect.Interface) {
			return fmt.Errorf("%s must be a whole number, not %s", place, typeName(t))
		}
	case parameter:
		if t == reflect.TypeFor[time.Duration]() || !oneOf(t, reflect.String, reflect.Int, reflect.Float64, reflect.Bool, reflect.Interface) && t != reflect.TypeFor[time.Time]() {
			return fmt.Errorf("a parameter must be text, a number, true or false, or a time, not %s", typeName(t))
		}
	case span:
		if t != reflect.TypeFor[time.Duration]() && !oneOf(t, reflect.Interface) {
			return fmt.Errorf("%s must be a duration, not %s; write 3h, hours(event.sla_hours) or duration(event.sla)", place, typeName(t))
		}
		if !reads {
			return fmt.Errorf("the expression reads nothing, so %s is always the same; write the duration out, such as %s: 3h", place, place)
		}
	}
	return nil
}

// What to do with a condition that is always the same, for exprEnv.constant.
const (
	removeCondition  = "compare a field, such as %s > 0, or remove the condition"
	neededCondition  = "compare a field, such as event.total > 0. Without a condition, each event that triggers a job would also resolve it"
	endlessCondition = "remove the condition and name the event that ends the pause, such as until: orders.released, or compare a field that changes, such as event.status == \"ON_HOLD\""
)

func oneOf(t reflect.Type, kinds ...reflect.Kind) bool { return slices.Contains(kinds, t.Kind()) }

// scanExpression refuses a text that would take the parser long or deep before the parser sees it.
func scanExpression(s string) error {
	if len(s) > document.MaxExpression {
		return fmt.Errorf("the expression has %d bytes, the most is %d", len(s), document.MaxExpression)
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
