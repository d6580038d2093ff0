package rules

import (
	"slices"

	"github.com/expr-lang/expr/ast"

	"deadman/rules/bodies"
)

// extentOf returns the part of the event or the state that an expression reads as it is written.
func extentOf(root ast.Node, name string) bodies.Part {
	f := fieldCounter{name: name}
	ast.Walk(&root, &f)
	return bodies.Part{Whole: f.all > f.named, Fields: f.fields}
}

// fieldCounter counts how often an expression contains a name, and how often it names a field of it.
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
