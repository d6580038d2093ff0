package configfile

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// paper is a file that is being read, and what is wrong with it so far.
type paper struct {
	file     string
	problems Problems
}

func (p *paper) problem(tk *token.Token, field, format string, args ...any) {
	p.problems = append(p.problems, *problemAt(tk, field, format, args...))
}

// Read hands the one document of a file to read, which notes at its values what is wrong; a
// file without a document is nobody's to read. file is its name, which problems carry and
// which Value.Path begins at. The error is Problems and holds all of them, unless the file is
// not YAML at all: then the first place where it is not.
func Read(data []byte, file string, read func(Value)) error {
	document, problem := parse(data)
	if problem != nil {
		return Problems{*problem}.orNil(file)
	}
	p := &paper{file: file}
	if document != nil {
		read(Value{node: document, at: start(document), paper: p})
	}
	return p.problems.orNil(file)
}

// hints say what to do about what the parser says.
var hints = map[string]string{
	"mapping value is not allowed in this context": `a value with ": " in it has to be quoted, or the indent is wrong`,
}

// parse is the one document of a file, nil where there is none.
func parse(data []byte) (ast.Node, *Problem) {
	if len(data) > MaxSize {
		return nil, &Problem{Line: 1, Column: 1, Message: fmt.Sprintf("the file may hold %d bytes, and this one holds more; leave out what is over", MaxSize)}
	}
	text, problem := Text(data)
	if problem != nil {
		return nil, problem
	}
	tokens, problem := Tokens(text)
	if problem != nil {
		return nil, problem
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // Fields says it better
	if err != nil {
		return nil, Syntax(err, hints)
	}
	var document ast.Node
	for _, d := range file.Docs {
		switch d.Body.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode:
			continue
		}
		if document != nil {
			return nil, problemAt(start(d.Body), "", "the file holds one document; write it without ---")
		}
		document = d.Body
	}
	return document, nil
}
