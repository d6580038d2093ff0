package calendars

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a text's depth, which a parser can't take without end.
const (
	maxNesting = 32
	maxIndent  = 128
)

// readYAML is the one document of a text, nil where there is none.
func readYAML(data []byte) (ast.Node, *Problem) {
	if len(data) > MaxSize {
		return nil, &Problem{Line: 1, Column: 1, Message: fmt.Sprintf("the file may hold %d bytes, and this one holds more; leave out what is over", MaxSize)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if p := badCharacter(data); p != nil {
		return nil, p
	}
	tokens := lexer.Tokenize(string(data))
	if p := tooDeep(tokens); p != nil {
		return nil, p
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxProblem(err)
	}
	var document ast.Node
	for _, d := range file.Docs {
		if empty(d.Body) {
			continue
		}
		if document != nil {
			p := problemAt(start(d.Body), "", "the file holds one document; write it without ---")
			return nil, &p
		}
		document = d.Body
	}
	return document, nil
}

func empty(n ast.Node) bool {
	switch n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return true
	}
	return false
}

// badCharacter finds the first byte that is not UTF-8 text, or a carriage return that ends no
// line: a block text of those takes a parser minutes.
func badCharacter(data []byte) *Problem {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		lone := r == '\r' && !bytes.HasPrefix(data[i+1:], []byte("\n"))
		if r == utf8.RuneError && size == 1 || r == 0 || lone {
			line := bytes.LastIndexByte(data[:i], '\n') + 1
			return &Problem{
				Line: bytes.Count(data[:i], []byte("\n")) + 1, Column: utf8.RuneCount(data[line:i]) + 1,
				Message: fmt.Sprintf("byte %#02x is not part of UTF-8 text with lines; save the file as UTF-8", data[i]),
			}
		}
		i += size
	}
	return nil
}

// tooDeep finds nesting that would take a parser long.
func tooDeep(tokens token.Tokens) *Problem {
	nesting, entries, line := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
			if tk.Position.Column > maxIndent && nesting == 0 && tk.Type != token.CommentType && !inBlock(tk) {
				p := problemAt(tk, "", "this line is indented by more than %d columns; nothing here needs such depth", maxIndent)
				return &p
			}
		}
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			nesting++
		case token.MappingEndType, token.SequenceEndType:
			nesting--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		}
		if nesting > maxNesting || entries > maxNesting {
			p := problemAt(tk, "", "nested deeper than %d levels; nothing here needs such depth", maxNesting)
			return &p
		}
	}
	return nil
}

// inBlock reports whether tk is the body of a block text, whose indent says nothing.
func inBlock(tk *token.Token) bool {
	before := tk.PreviousType()
	return before == token.LiteralType || before == token.FoldedType
}

func syntaxProblem(err error) *Problem {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return &Problem{Line: 1, Column: 1, Message: "not YAML: " + err.Error()}
	}
	message := "not YAML: " + syntax.GetMessage()
	if syntax.GetMessage() == "mapping value is not allowed in this context" {
		message += `; a value with ": " in it has to be quoted, or the indent is wrong`
	}
	p := problemAt(syntax.GetToken(), "", "%s", message)
	return &p
}

func problemAt(tk *token.Token, field, format string, args ...any) Problem {
	return Problem{Line: tk.Position.Line, Column: tk.Position.Column, Field: field, Message: fmt.Sprintf(format, args...)}
}

// start is where a value begins.
func start(n ast.Node) *token.Token {
	if values, ok := mapping(n); ok && len(values) > 0 && n.GetToken().Type != token.MappingStartType {
		return values[0].Key.GetToken()
	}
	return n.GetToken()
}

// mapping is the fields of a mapping.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// text is what a text says.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// kind is how messages name a value.
func kind(n ast.Node) string {
	switch n.(type) {
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
	case *ast.NullNode:
		return "no value"
	}
	return "a YAML " + n.Type().YAMLName()
}
