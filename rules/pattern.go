package rules

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// Bounds of the pattern of a "matches". A matcher takes up to one step for each instruction of the pattern's program
// and byte of the text, so the program bounds both the memory of a pattern and the cost of a text. The size of a
// pattern is its number of instructions, plus one for each rangesPerUnit ranges of characters that an instruction
// takes.
const (
	MaxPattern      = 256 // bytes
	maxRepeats      = 100 // of a counted repetition, such as a{100}
	maxPatternSize  = 1_000
	maxRulePatterns = 10_000 // the sizes of all patterns of a rule; one of 1,000 takes up to 2 MB while it is compiled
	maxTextPatterns = 50_000 // the same of all rules of a text
	rangesPerUnit   = 16
	stepsPerRound   = 16 // of a matcher
)

// pattern is a regular expression in the syntax of RE2 (https://github.com/google/re2/wiki/Syntax) with a known cost.
type pattern struct {
	*regexp.Regexp
	instructions int
}

// compilePattern compiles a pattern within the bounds, and deducts its size from the remaining size for the patterns of
// the rule. A refused pattern allocates little.
func compilePattern(text string, left *int) (*pattern, error) {
	shown := clip(text, 60)
	if len(text) > MaxPattern {
		return nil, fmt.Errorf("the pattern %q has %d bytes, the most is %d", shown, len(text), MaxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q cannot be read: %w", shown, err)
	}
	if n := repeats(tree); n > maxRepeats {
		return nil, fmt.Errorf("the pattern %q repeats %d times, the most is %d; write * or +", shown, n, maxRepeats)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", shown, err)
	}
	size := sizeOf(program)
	if size > maxPatternSize {
		return nil, fmt.Errorf("the pattern %q has a size of %d, the most is %d; repeat less by count, and fewer classes of characters", shown, size, maxPatternSize)
	}
	if size > *left {
		return nil, fmt.Errorf("the pattern %q has a size of %d, and %d are left: the patterns of a rule have %d together, those of a text %d",
			shown, size, *left, maxRulePatterns, maxTextPatterns)
	}
	*left -= size
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", shown, err)
	}
	return &pattern{compiled, len(program.Inst)}, nil
}

// sizeOf returns the size of a program.
func sizeOf(program *syntax.Prog) int {
	size := len(program.Inst)
	for _, i := range program.Inst {
		size += len(i.Rune) / 2 / rangesPerUnit
	}
	return size
}

// repeats returns the highest count of the tree's repetitions, with nested ones multiplied.
func repeats(tree *syntax.Regexp) int {
	inner := 1
	for _, sub := range tree.Sub {
		inner = max(inner, repeats(sub))
	}
	if tree.Op == syntax.OpRepeat {
		return inner * max(1, tree.Min, tree.Max)
	}
	return inner
}

// match reports whether the text matches the pattern, and pays for the search beforehand: a matcher cannot be stopped.
// A missing text does not match.
func (p *pattern) match(m *costMeter, v any) (bool, error) {
	text, ok := v.(string)
	switch {
	case v == nil:
		return false, nil
	case !ok:
		return false, fmt.Errorf(`"matches" needs text, and the value is %s`, naming(v))
	}
	if err := m.charge(len(text) * p.instructions / stepsPerRound); err != nil {
		return false, err
	}
	return p.MatchString(text), nil
}

// patternsOf compiles the patterns of an expression, by their texts. It runs before the library compiles them without
// bounds. A source that it cannot parse has none: the library reports its errors.
func patternsOf(source string, left *int) (map[string]*pattern, error) {
	tree, err := parser.Parse(source)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // see above
	}
	found := &patterns{compiled: make(map[string]*pattern), left: left}
	ast.Walk(&tree.Node, found)
	return found.compiled, found.err
}

// patterns collects the patterns of a tree.
type patterns struct {
	compiled map[string]*pattern
	left     *int
	count    int
	err      error
}

// Visit is called for each node.
func (p *patterns) Visit(n *ast.Node) {
	v, ok := (*n).(*ast.BinaryNode)
	if !ok || v.Operator != "matches" || p.err != nil {
		return
	}
	text, ok := v.Right.(*ast.StringNode)
	if !ok {
		p.err = fmt.Errorf(`the pattern of "matches" must be written out, not taken from an event`)
		return
	}
	if p.count++; p.count > maxMatches {
		p.err = fmt.Errorf(`more than %d "matches" in one expression; join them with "|"`, maxMatches)
		return
	}
	if p.compiled[text.Value] == nil {
		p.compiled[text.Value], p.err = compilePattern(text.Value, p.left)
	}
}
