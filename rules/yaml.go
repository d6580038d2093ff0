package rules

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a text, so that parsing takes a time that grows with its size and no faster.
const (
	maxNesting = 32
	maxIndent  = 128
)

// readYAML returns the documents of a text. Empty documents are left out.
func readYAML(text string) ([]node, Problems) {
	tokens := lexer.Tokenize(text)
	if ps := survey(tokens); len(ps) > 0 {
		return nil, ps
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, Problems{syntaxProblem(err)}
	}
	var docs []node
	for _, d := range file.Docs {
		if d.Body == nil {
			continue
		}
		n, p := yamlNode(d.Body)
		if p != nil {
			return nil, Problems{*p}
		}
		docs = append(docs, n)
	}
	return docs, nil
}

// survey refuses what a rule has no use for and a YAML reader would take for something else
// than was meant, and nesting that would take a parser long.
func survey(tokens token.Tokens) Problems {
	var ps Problems
	nesting, entries, line, documents := 0, 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
			if tk.Position.Column > maxIndent && nesting == 0 && tk.Type != token.CommentType && !inBlock(tk) {
				return append(ps, at(tk, fmt.Sprintf("this line is indented by more than %d columns; a rule needs no such depth", maxIndent)))
			}
		}
		switch tk.Type {
		case token.DocumentHeaderType:
			if documents++; documents > maxRules {
				return append(ps, at(tk, tooManyRules))
			}
		case token.MappingStartType, token.SequenceStartType:
			nesting++
		case token.MappingEndType, token.SequenceEndType:
			nesting--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		case token.TagType:
			ps = append(ps, at(tk, fmt.Sprintf(`YAML reads %s as a tag, not as part of a value; quote the whole value: "%s"`, clip(tk.Value, 40), clip(tk.Value, 40))))
		case token.AliasType, token.AnchorType:
			ps = append(ps, at(tk, `YAML reads a leading "*" or "&" as an alias or an anchor, which rules don't have; quote the whole value`))
		case token.MergeKeyType:
			ps = append(ps, at(tk, `YAML merge keys ("<<") are not part of rules; write the fields out`))
		}
		if nesting > maxNesting || entries > maxNesting {
			return append(ps, at(tk, fmt.Sprintf("nested deeper than %d levels; a rule needs no such depth", maxNesting)))
		}
	}
	return ps
}

// inBlock reports whether tk is the body of a block text, whose indent says nothing.
func inBlock(tk *token.Token) bool {
	before := tk.PreviousType()
	return before == token.LiteralType || before == token.FoldedType
}

func at(tk *token.Token, message string) Problem {
	return Problem{Line: tk.Position.Line, Column: tk.Position.Column, Message: message}
}

// syntaxProblem says what a parser's error comes from most often in a rule.
func syntaxProblem(err error) Problem {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return Problem{Line: 1, Column: 1, Message: "not YAML: " + err.Error()}
	}
	message := "not YAML: " + syntax.GetMessage()
	if hint := syntaxHint(syntax.GetMessage()); hint != "" {
		message += "; " + hint
	}
	return at(syntax.GetToken(), message)
}

func syntaxHint(message string) string {
	switch message {
	case "mapping value is not allowed in this context":
		return `a value with ": " in it has to be quoted; or the indent is wrong`
	case "',' or '}' must be specified":
		return `inside {…} an expression with a comma, "[" or "{" has to be quoted: if: 'event.state in ["A", "B"]'`
	case "could not find flow map content":
		return `a value that begins with "{" has to be quoted: text: "{{key}} waits"`
	case "value is not allowed in this context. map key-value is pre-defined":
		return `a value that begins with a quote has to be quoted as a whole: if: '"a" == event.b'`
	}
	return ""
}

func yamlNode(n ast.Node) (node, *Problem) {
	tk := n.GetToken()
	scalar := func(k kind, text string) (node, *Problem) {
		return node{place: placeOf(tk), kind: k, text: text}, nil
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return yamlMapping(tk, n.Values)
	case *ast.MappingValueNode:
		return yamlMapping(tk, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		return yamlSequence(n)
	case *ast.StringNode:
		return scalar(aText, n.Value)
	case *ast.LiteralNode:
		return scalar(aText, n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return scalar(aNumber, tk.Value)
	case *ast.BoolNode:
		return scalar(aBoolean, tk.Value)
	case *ast.NullNode:
		return scalar(aNull, "")
	}
	p := at(tk, fmt.Sprintf("a rule has no use for a YAML %s here; write a plain value", n.Type().YAMLName()))
	return node{}, &p
}

func yamlMapping(start *token.Token, values []*ast.MappingValueNode) (node, *Problem) {
	m := node{kind: aMapping, place: placeOf(start)}
	for i, v := range values {
		key := v.Key.GetToken()
		if _, explicit := v.Key.(*ast.MappingKeyNode); explicit {
			p := at(key, `a rule has no use for a "?" key; write "name: value"`)
			return m, &p
		}
		if i == 0 && !(start.Type == token.MappingStartType) {
			m.place = placeOf(key)
		}
		value, p := yamlNode(v.Value)
		if p != nil {
			return m, p
		}
		m.fields = append(m.fields, field{place: placeOf(key), name: key.Value, value: value})
	}
	return m, nil
}

func yamlSequence(n *ast.SequenceNode) (node, *Problem) {
	s := node{kind: aSequence, place: placeOf(n.Start)}
	for _, v := range n.Values {
		value, p := yamlNode(v)
		if p != nil {
			return s, p
		}
		s.items = append(s.items, value)
	}
	return s, nil
}

func placeOf(tk *token.Token) place { return place{tk.Position.Line, tk.Position.Column} }
