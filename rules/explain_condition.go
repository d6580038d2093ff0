package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Bounds of the report of the values that a condition read.
const (
	maxSeen      = 160 // characters, of all of it
	maxSeenValue = 60  // characters, of one text
)

// readField is a field that a condition reads, and its name.
type readField struct {
	fieldUse
	name string
}

// within reports whether a field is another one, or contains it.
func (u fieldUse) within(other fieldUse) bool {
	return u.state == other.state && len(u.path) <= len(other.path) && slices.Equal(u.path, other.path[:len(u.path)])
}

// readFields returns the fields that an expression reads, in the order of its text, each once. Of state.order and
// state.order.status only the longer is reported.
func readFields(root ast.Node) []readField {
	var r fieldReader
	ast.Walk(&root, &r)
	var fields []readField
	for i, u := range r.read {
		longer := func(other fieldUse) bool { return u.within(other) && !other.within(u) }
		again := func(other fieldUse) bool { return u.within(other) && other.within(u) }
		if !slices.ContainsFunc(r.read, longer) && !slices.ContainsFunc(r.read[:i], again) {
			fields = append(fields, readField{u, u.String()})
		}
	}
	return fields
}

// fieldReader collects fields on a walk through a tree.
type fieldReader struct{ read []fieldUse }

// Visit is called for each node.
func (r *fieldReader) Visit(n *ast.Node) {
	if u, ok := fieldAt(*n); ok {
		r.read = append(r.read, u)
	}
}

// fieldAt returns the field that a node names, if it names one.
func fieldAt(n ast.Node) (u fieldUse, ok bool) {
	switch v := n.(type) {
	case *ast.IdentifierNode:
		return fieldUse{state: v.Value == nameState}, v.Value == nameEvent || v.Value == nameState
	case *ast.ChainNode:
		return fieldAt(v.Node)
	case *ast.MemberNode:
		name, isText := v.Property.(*ast.StringNode)
		if u, ok = fieldAt(v.Node); !ok || !isText {
			return u, false
		}
		u.path = append(slices.Clone(u.path), name.Value)
		return u, true
	}
	return u, false
}

// explain returns the values that a condition read when it was evaluated, for people: state.status = "OPEN".
func (x *expression) explain(s scope) string {
	if len(x.sees) == 0 {
		return ""
	}
	var b strings.Builder
	b.Grow(64)
	for i, u := range x.sees {
		of, read := s.event, x.event
		if u.state {
			of, read = s.state, x.state
		}
		v, err := of.Value(x.dialect.literal, read) // it was decoded for the condition
		if err != nil {
			continue
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(u.name)
		if v = valueAt(v, u.path); v == nil {
			b.WriteString(" is missing")
			continue
		}
		b.WriteString(" = ")
		b.WriteString(literally(v))
	}
	return clip(b.String(), maxSeen)
}

// valueAt returns the value at a path; nil: none.
func valueAt(v any, path []string) any {
	for _, name := range path {
		fields, _ := v.(map[string]any)
		v = fields[name]
	}
	if fields, is := v.(map[string]any); is && fields == nil {
		return nil // the entity does not exist
	}
	return v
}

// literally returns a value as an expression would write it; of a list or an object, the number of its values.
func literally(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(clip(v, maxSeenValue))
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d fields", len(v))
	}
	text, err := show(v)
	if err != nil {
		return naming(v)
	}
	return text
}
