package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// checkConstant refuses a condition whose result does not depend on its input, as far as that can be seen: from
// literals, and from comparisons of one field that exclude each other.
func checkConstant(root ast.Node) error {
	v := verdictOf(root)
	switch {
	case v.known && v.reason != "" && v.value:
		return fmt.Errorf(`the condition is always true: %s; did you mean "and"?`, v.reason)
	case v.known && v.reason != "":
		return fmt.Errorf(`the condition is never true: %s; did you mean "or"?`, v.reason)
	case v.known && v.value:
		return errors.New("the condition is always true; remove the literal true")
	case v.known:
		return errors.New("the condition is never true; remove the literal false")
	}
	return nil
}

// constantResult is the result of a condition, if it is known beforehand.
type constantResult struct {
	known, value bool
	reason       string // why, if it is not a literal
}

func verdictOf(n ast.Node) constantResult {
	switch v := n.(type) {
	case *ast.BoolNode:
		return constantResult{known: true, value: v.Value}
	case *ast.UnaryNode:
		if v.Operator == "not" || v.Operator == "!" {
			inner := verdictOf(v.Node)
			inner.value = !inner.value
			return inner
		}
	case *ast.BinaryNode:
		switch v.Operator {
		case "and", "&&":
			return joined(operands(n, "and", "&&"), false)
		case "or", "||":
			return joined(operands(n, "or", "||"), true)
		}
	}
	return constantResult{}
}

// joined returns the result of operands joined by "and", or by "or". decisive is the value of an operand that
// decides alone: false for "and". The rules of "or" for comparisons are those of "and" for their opposites.
func joined(operands []ast.Node, decisive bool) constantResult {
	all := true
	bounds := make(map[string]*valueBounds)
	for _, n := range operands {
		v := verdictOf(n)
		if v.known && v.value == decisive {
			return v
		}
		all = all && v.known
		c, ok := comparisonOf(n)
		if !ok {
			continue
		}
		if decisive {
			c.operator = opposite[c.operator]
		}
		if bounds[c.field] == nil {
			bounds[c.field] = &valueBounds{}
		}
		if other := bounds[c.field].add(c); other != "" {
			return constantResult{known: true, value: decisive, reason: exclusion(c.field, other, c.written, decisive)}
		}
	}
	return constantResult{known: all, value: !decisive}
}

func exclusion(field, first, second string, or bool) string {
	if or {
		return fmt.Sprintf("whatever %s is, %s or %s", clip(field, 60), clip(first, 60), clip(second, 60))
	}
	return fmt.Sprintf("no %s is both %s and %s", clip(field, 60), clip(first, 60), clip(second, 60))
}

func operands(n ast.Node, operators ...string) []ast.Node {
	if v, ok := n.(*ast.BinaryNode); ok && slices.Contains(operators, v.Operator) {
		return slices.Concat(operands(v.Left, operators...), operands(v.Right, operators...))
	}
	return []ast.Node{n}
}

// comparison is a comparison of a field with a literal.
type comparison struct {
	field    string
	operator string
	value    any    // string or float64
	written  string // the operator and the value
}

var opposite = map[string]string{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

var mirrored = map[string]string{"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}

func comparisonOf(n ast.Node) (comparison, bool) {
	v, ok := n.(*ast.BinaryNode)
	if !ok || opposite[v.Operator] == "" {
		return comparison{}, false
	}
	field, operator, value := v.Left, v.Operator, v.Right
	if _, is := literalOf(field); is {
		field, operator, value = v.Right, mirrored[v.Operator], v.Left
	}
	known, is := literalOf(value)
	if _, twice := literalOf(field); twice || !is {
		return comparison{}, false
	}
	return comparison{field: field.String(), operator: operator, value: known, written: operator + " " + value.String()}, true
}

func literalOf(n ast.Node) (any, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.IntegerNode:
		return float64(v.Value), true
	case *ast.FloatNode:
		return v.Value, true
	case *ast.UnaryNode:
		if inner, ok := literalOf(v.Node); ok && v.Operator == "-" {
			if f, is := inner.(float64); is {
				return -f, true
			}
		}
	}
	return nil, false
}

// valueBounds collects comparisons that must all hold, as the possible values of a field.
type valueBounds struct{ kept []comparison }

// add keeps the comparison, and returns one kept before that excludes it, or "".
func (b *valueBounds) add(c comparison) string {
	for _, k := range b.kept {
		if exclude(k, c) || exclude(c, k) {
			return k.written
		}
	}
	b.kept = append(b.kept, c)
	return ""
}

// exclude reports whether no value satisfies both comparisons. It is called in both orders.
func exclude(a, b comparison) bool {
	switch a.operator {
	case "==":
		return !satisfies(a.value, b)
	case "<", "<=":
		x, isNumber := a.value.(float64)
		y, both := b.value.(float64)
		if !isNumber || !both || b.operator != ">" && b.operator != ">=" {
			return false
		}
		return x < y || x == y && (a.operator == "<" || b.operator == ">")
	}
	return false
}

// satisfies reports whether a value satisfies a comparison, as far as that is known.
func satisfies(value any, c comparison) bool {
	switch c.operator {
	case "==":
		return value == c.value
	case "!=":
		return value != c.value
	}
	x, isNumber := value.(float64)
	y, both := c.value.(float64)
	if !isNumber || !both {
		return true
	}
	switch c.operator {
	case "<":
		return x < y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x >= y
}
