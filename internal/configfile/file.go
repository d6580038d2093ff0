package configfile

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// openFile is a file being read, with its problems so far.
type openFile struct {
	name     string
	problems Problems
}

func (p *openFile) problem(tk *token.Token, field, format string, args ...any) {
	p.problems = append(p.problems, *problemAt(tk, field, format, args...))
}

// Read passes the single document of a file to read, which reports problems at the values. read is not called for a
// file without a document. file is the name of the file; problems contain it, and Value.Path is relative to its folder.
// The error is Problems with all problems, or with the first syntax error if the file is not YAML.
func Read(data []byte, file string, read func(Value)) error {
	document, problem := parse(data)
	if problem != nil {
		return Problems{*problem}.orNil(file)
	}
	p := &openFile{name: file}
	if document != nil {
		read(Value{node: document, at: start(document), file: p})
	}
	return p.problems.orNil(file)
}

// hints maps parser messages to remedies.
var hints = map[string]string{
	"mapping value is not allowed in this context": `a value with ": " in it has to be quoted, or the indent is wrong`,
}

// parse returns the single document of a file, or nil if the file has none.
func parse(data []byte) (ast.Node, *Problem) {
	if len(data) > MaxSize {
		return nil, &Problem{Line: 1, Column: 1, Message: fmt.Sprintf("the file is larger than the limit of %d bytes; make it smaller", MaxSize)}
	}
	text, problem := Text(data)
	if problem != nil {
		return nil, problem
	}
	tokens, problem := Tokens(text)
	if problem != nil {
		return nil, problem
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // Fields reports duplicate keys with a better message
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
			return nil, problemAt(start(d.Body), "", "the file must have one document only; remove ---")
		}
		document = d.Body
	}
	return document, nil
}
