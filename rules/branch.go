package rules

import (
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// branch is a part of an expression whose conditions are traced. It returns the value of the part; known is false if the
// part is no condition, or cannot be evaluated.
type branch func(scope) (value, known bool)

// branchTracer finds the branches of an expression: the operands of "and" and "or" in a condition, and the conditions of
// "? :". A condition within a function over a list is no branch.
type branchTracer struct {
	tracer
	field string
	x     *expression
}

// parsed returns the tree of a source that was compiled; nil: it cannot be read without its environment.
func parsed(source string) ast.Node {
	tree, err := parser.Parse(source)
	if err != nil {
		return nil
	}
	return tree.Node
}

// condition returns the branch of a condition.
func (b branchTracer) condition(n ast.Node) branch {
	switch v := n.(type) {
	case *ast.UnaryNode:
		if v.Operator == "not" || v.Operator == "!" {
			inner := b.condition(v.Node)
			return func(s scope) (bool, bool) {
				value, known := inner(s)
				return !value, known
			}
		}
	case *ast.BinaryNode:
		switch v.Operator {
		case "and", "&&":
			return b.joined(v, false)
		case "or", "||":
			return b.joined(v, true)
		}
	case *ast.ConditionalNode:
		return chosen(b.condition(v.Cond), b.condition(v.Exp1), b.condition(v.Exp2))
	}
	return b.leaf(n)
}

// joined returns the branch of an "and", or of an "or". An operand with the decisive value ends the evaluation.
func (b branchTracer) joined(n *ast.BinaryNode, decisive bool) branch {
	left, right := b.condition(n.Left), b.condition(n.Right)
	return func(s scope) (bool, bool) {
		value, known := left(s)
		if !known || value == decisive {
			return value, known
		}
		return right(s)
	}
}

// chosen returns the branch of "condition ? yes : no".
func chosen(condition, yes, no branch) branch {
	return func(s scope) (bool, bool) {
		value, known := condition(s)
		switch {
		case !known:
			return false, false
		case value:
			return yes(s)
		}
		return no(s)
	}
}

// leaf returns the branch of a condition without operands, and counts its values. A literal, or a part that only the whole
// expression gives a meaning, is not counted.
func (b branchTracer) leaf(n ast.Node) branch {
	source := n.String()
	if w := parsed(b.x.source); w != nil && w.String() == source {
		source = b.x.source
	}
	d := b.x.dialect
	d.yields, d.patterns, d.ended = truth, nil, nil
	x, err := compileExpression(source, d)
	if err != nil {
		return func(scope) (bool, bool) { return false, false }
	}
	x.sees = readFields(n)
	p := b.point(Point{Rule: b.rule, Field: b.field, Kind: BranchPoint, Condition: source})
	return func(s scope) (bool, bool) {
		s.spend = nil
		holds, err := x.holds(s)
		if err != nil {
			return false, false
		}
		if holds {
			p.Hits++
		} else {
			p.Misses++
		}
		if b.Observe != nil {
			b.Observe(Evaluation{Rule: b.rule, Field: b.field, Condition: source, Holds: holds, Values: x.explain(s)})
		}
		return holds, true
	}
}

// value returns the branch of an expression that is no condition itself: the conditions in it. nil: there is none.
func (b branchTracer) value(n ast.Node) branch {
	if v, is := n.(*ast.ConditionalNode); is {
		return chosen(b.condition(v.Cond), b.valueOrNone(v.Exp1), b.valueOrNone(v.Exp2))
	}
	var parts []branch
	for _, operand := range operandsOf(n) {
		if part := b.value(operand); part != nil {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return func(s scope) (bool, bool) {
		for _, part := range parts {
			part(s)
		}
		return false, false
	}
}

func (b branchTracer) valueOrNone(n ast.Node) branch {
	if part := b.value(n); part != nil {
		return part
	}
	return func(scope) (bool, bool) { return false, false }
}

// operandsOf returns the operands of a node that are evaluated once and in its own scope.
func operandsOf(n ast.Node) []ast.Node {
	switch v := n.(type) {
	case *ast.UnaryNode:
		return []ast.Node{v.Node}
	case *ast.BinaryNode:
		return []ast.Node{v.Left, v.Right}
	case *ast.ChainNode:
		return []ast.Node{v.Node}
	case *ast.MemberNode:
		return []ast.Node{v.Node}
	case *ast.CallNode:
		return v.Arguments
	case *ast.BuiltinNode:
		return v.Arguments
	}
	return nil
}
