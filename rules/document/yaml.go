package document

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"deadman/internal/configfile"
)

// readYAML returns the documents of a text. Empty documents are left out.
func readYAML(text []byte) ([]node, Problems) {
	tokens, p := configfile.Tokens(text)
	if p != nil {
		return nil, Problems{problemOf(p)}
	}
	if ps := survey(tokens); len(ps) > 0 {
		return nil, ps
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, Problems{problemOf(configfile.Syntax(err, hints))}
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

// survey refuses too many documents, and YAML features that a rule does not need and a YAML reader would misinterpret.
func survey(tokens token.Tokens) Problems {
	var ps Problems
	documents := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.DocumentHeaderType:
			if documents++; documents > maxRules {
				return append(ps, at(tk, tooManyRules))
			}
		case token.TagType:
			ps = append(ps, at(tk, fmt.Sprintf("YAML reads %s as a tag, not as part of a value; quote the whole value", configfile.Truncate(tk.Value, 40))))
		case token.AliasType, token.AnchorType:
			ps = append(ps, at(tk, `YAML reads a leading "*" or "&" as an alias or an anchor, which rules don't have; quote the whole value`))
		case token.MergeKeyType:
			ps = append(ps, at(tk, `YAML merge keys ("<<") are not part of rules; write the fields out`))
		}
	}
	return ps
}

func at(tk *token.Token, message string) Problem {
	return Problem{Line: tk.Position.Line, Column: tk.Position.Column, Message: message}
}

// problemOf returns a problem with a text before its document is known.
func problemOf(p *configfile.Problem) Problem {
	return Problem{Line: p.Line, Column: p.Column, Message: p.Message}
}

// hints map a parser's error to its most frequent cause in a rule.
var hints = map[string]string{
	"mapping value is not allowed in this context":                       `a value with ": " in it must be quoted, or the indent is wrong`,
	"',' or '}' must be specified":                                       `inside {…} an expression with a comma, "[" or "{" must be quoted: if: 'event.state in ["A", "B"]'`,
	"could not find flow map content":                                    `a value that begins with "{" must be quoted: text: "{{key}} waits"`,
	"value is not allowed in this context. map key-value is pre-defined": `a value that begins with a quote must be quoted as a whole: if: '"a" == event.b'`,
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
