package configfile

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Fields is the values of a mapping by their names, which are the only ones it may have. One
// that is left out reads as nothing; Needed says so.
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

// Entries is the values of a mapping with names of the file's own, as what says: "a name for
// each channel".
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

// entries is what a mapping has, each name once.
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
		v.paper.problem(key, v.Field, `a "?" key is not needed here; write "name: value"`)
		if k.Value == nil {
			return Value{}
		}
		return Value{Name: k.Value.GetToken().Value}
	}
	field := strings.TrimPrefix(v.Field+"."+Truncate(key.Value, quoted), ".")
	return Value{Name: key.Value, Field: field, node: n.Value, key: n.Key, at: key, paper: v.paper}
}

// filled is v, or nothing where that is what the file says.
func (v Value) filled() Value {
	if _, null := v.node.(*ast.NullNode); null {
		v.ProblemAtName("there is no value; give it one or leave it out")
		return Value{}
	}
	return v
}
