package rules

import (
	"slices"

	"github.com/expr-lang/expr/ast"
)

// fieldSet is the part of an event or a state that an expression reads. Decoding is most of a condition's cost, so
// nothing else is decoded.
type fieldSet struct {
	any    bool     // the expression reads any part
	whole  bool     // more than named fields
	fields []string // of the outermost object
}

// extentOf returns the part of the event or the state that an expression reads as it is written.
func extentOf(root ast.Node, name string) fieldSet {
	f := fieldCounter{name: name}
	ast.Walk(&root, &f)
	return fieldSet{any: f.all > 0, whole: f.all > f.named, fields: f.fields}
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
