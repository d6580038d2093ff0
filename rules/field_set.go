package rules

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// fieldSet is what an expression reads of an event or a state. Decoding is most of what a
// condition costs, so nothing else is decoded.
type fieldSet struct {
	any    bool     // anything at all
	whole  bool     // more than fields that are named
	fields []string // of the outermost object
}

// extentOf is what an expression as it is written reads of the event or the state.
func extentOf(root ast.Node, name string) fieldSet {
	f := fieldCounter{name: name}
	ast.Walk(&root, &f)
	return fieldSet{any: f.all > 0, whole: f.all > f.named, fields: f.fields}
}

// fieldCounter counts how often a name stands in an expression, and how often a field of it is named.
type fieldCounter struct {
	name       string
	all, named int
	fields     []string
}

// Visit is called for each node.
func (f *fieldCounter) Visit(n *ast.Node) {
	switch v := (*n).(type) {
	case *ast.IdentifierNode:
		if v.Value == f.name {
			f.all++
		}
	case *ast.MemberNode:
		of, isName := v.Node.(*ast.IdentifierNode)
		field, isText := v.Property.(*ast.StringNode)
		if !isName || !isText || of.Value != f.name {
			return
		}
		f.named++
		if !slices.Contains(f.fields, field.Value) {
			f.fields = append(f.fields, field.Value)
		}
	}
}
