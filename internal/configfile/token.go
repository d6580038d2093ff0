package configfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Limits of nesting. They keep the time of parsing linear in the size.
const (
	MaxNesting = 32   // levels
	maxIndent  = 128  // columns
	MaxFields  = 4000 // of a block mapping; the parser's time per field grows with their number
)

// Tokens returns the tokens of a Text for a YAML parser. The problem is nesting that would make parsing slow.
func Tokens(text []byte) (token.Tokens, *Problem) {
	tokens := lexer.Tokenize(string(text))
	nesting, entries, line := 0, 0, 0
	var fields blockFields
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
			if nesting == 0 && !inBlock(tk) && fields.begin(tk) > MaxFields {
				return nil, problemAt(tk, "", "the mapping has more than %d fields; split it, or leave some out", MaxFields)
			}
			if tk.Position.Column > maxIndent && nesting == 0 && tk.Type != token.CommentType && !inBlock(tk) {
				return nil, problemAt(tk, "", "this line is indented by more than %d columns; nothing here needs such depth", maxIndent)
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
		if nesting > MaxNesting || entries > MaxNesting {
			return nil, problemAt(tk, "", "nested deeper than %d levels; nothing here needs such depth", MaxNesting)
		}
	}
	return tokens, nil
}

// blockFields counts the lines of open block mappings.
type blockFields []blockLines

// blockLines is the number of lines that begin at a column.
type blockLines struct{ column, lines int }

// begin adds a line by its first token and returns the number of lines of its block so far. A line with less indent
// closes the inner blocks.
func (b *blockFields) begin(tk *token.Token) int {
	open := *b
	for len(open) > 0 && open[len(open)-1].column > tk.Position.Column {
		open = open[:len(open)-1]
	}
	switch {
	case tk.Type == token.CommentType || tk.Type == token.SequenceEntryType:
		*b = open
		return 0
	case tk.Type == token.DocumentHeaderType:
		*b = nil
		return 0
	case len(open) == 0 || open[len(open)-1].column < tk.Position.Column:
		open = append(open, blockLines{column: tk.Position.Column})
	}
	last := &open[len(open)-1]
	last.lines++
	*b = open
	return last.lines
}

// inBlock reports whether tk is the body of a block text, whose indent does not count.
func inBlock(tk *token.Token) bool {
	before := tk.PreviousType()
	return before == token.LiteralType || before == token.FoldedType
}

// Syntax returns the problem for a syntax error of a YAML parser. hints maps parser messages to remedies.
func Syntax(err error, hints map[string]string) *Problem {
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return &Problem{Line: 1, Column: 1, Message: "not YAML: " + err.Error()}
	}
	message := "not YAML: " + syntax.GetMessage()
	if hint := hints[syntax.GetMessage()]; hint != "" {
		message += "; " + hint
	}
	return problemAt(syntax.GetToken(), "", "%s", message)
}

func problemAt(tk *token.Token, field, format string, args ...any) *Problem {
	return &Problem{Line: tk.Position.Line, Column: tk.Position.Column, Field: field, Message: fmt.Sprintf(format, args...)}
}
