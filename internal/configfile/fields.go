package configfile

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Fields returns the values of a mapping by field name. Any other field is a problem. A missing field reads as an empty
// Value; use Require for required fields.
func (v Value) Fields(names ...string) map[string]Value {
	entries, ok := v.entries("the fields " + strings.Join(names, ", "))
	if !ok {
		return nil
	}
	fields := make(map[string]Value, len(names))
	for _, name := range names {
		fields[name] = Value{Name: name, Field: v.Field, at: v.at, paper: v.paper}
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name) {
			e.ProblemAtName("%s", UnknownName("field", e.Name, names))
			continue
		}
		fields[e.Name] = e.filled()
	}
	return fields
}

// Entries returns the entries of a mapping whose names are chosen by the author of the file. what names them in a
// problem: "a name for each channel".
func (v Value) Entries(what string) []Value {
	entries, _ := v.entries(what)
	var filled []Value
	for _, e := range entries {
		if e = e.filled(); e.Present() {
			filled = append(filled, e)
		}
	}
	return filled
}

// entries returns the entries of a mapping. A duplicate name is a problem.
func (v Value) entries(what string) (entries []Value, ok bool) {
	values, ok := mapping(v.node)
	if !ok {
		v.Problem("expected a mapping with %s, not %s", what, v.Kind())
		return nil, false
	}
	seen := make(map[string]bool)
	for _, n := range values {
		e := v.entry(n)
		if seen[e.Name] {
			e.ProblemAtName("%q is here twice; keep one", Truncate(e.Name, quoted))
			continue
		}
		seen[e.Name] = true
		entries = append(entries, e)
	}
	return entries, true
}

func (v Value) entry(n *ast.MappingValueNode) Value {
	key := n.Key.GetToken()
	if k, explicit := n.Key.(*ast.MappingKeyNode); explicit {
		v.paper.problem(key, v.Field, `a "?" key is not supported; write "name: value"`)
		if k.Value == nil {
			return Value{}
		}
		return Value{Name: k.Value.GetToken().Value}
	}
	field := strings.TrimPrefix(v.Field+"."+Truncate(key.Value, quoted), ".")
	return Value{Name: key.Value, Field: field, node: n.Value, key: n.Key, at: key, paper: v.paper}
}

// filled returns v, or an empty Value if the file has no value there.
func (v Value) filled() Value {
	if _, null := v.node.(*ast.NullNode); null {
		v.ProblemAtName("the value is missing; write one, or leave the field out")
		return Value{}
	}
	return v
}
