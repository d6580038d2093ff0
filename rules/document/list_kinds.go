package document

import (
	"fmt"

	"github.com/invopop/jsonschema"
)

// texts is a list of text.
type texts struct {
	to   *[]string
	most int // for the schema
	item func(to *string) value
}

func (v texts) read(r *reader, n node, pointer string) {
	r.items(n, pointer, func(n node, p string) {
		*v.to = append(*v.to, "")
		v.item(&(*v.to)[len(*v.to)-1]).read(r, n, p)
	})
}

func (v texts) schema(d jsonschema.Definitions) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "array", Items: v.item(new(string)).schema(d), MinItems: new(uint64(1)), MaxItems: new(uint64(v.most)),
	}
}

// statuses is a list of HTTP statuses.
type statuses struct{ to *[]int }

func (v statuses) read(r *reader, n node, pointer string) {
	r.items(n, pointer, func(n node, p string) {
		var status int
		positiveInt{to: &status}.read(r, n, p)
		*v.to = append(*v.to, status)
	})
}

func (v statuses) schema(jsonschema.Definitions) *jsonschema.Schema {
	status := &jsonschema.Schema{Type: "integer", Minimum: "400", Maximum: "599"}
	return &jsonschema.Schema{Type: "array", Items: status, MinItems: new(uint64(1))}
}

// list is a list of mappings. blank is the i-th one before it is read.
type list[T any] struct {
	to     *[]T
	of     func(*T) mapping
	blank  func(i int) T
	single bool   // a mapping represents the list that has only it
	shape  string // the expected shape, and an example
	empty  string // why it must not be empty; "": it may
	most   int
}

func (v list[T]) read(r *reader, n node, pointer string) {
	switch {
	case v.single && n.kind != aSequence:
		r.single[pointer] = true
		*v.to = []T{v.new(0)}
		v.of(&(*v.to)[0]).read(r, n, pointer)
		return
	case n.kind != aSequence:
		r.problem(pointer, "expected a list of %s", fmt.Sprintf(v.shape, n.kind))
		return
	case len(n.items) == 0 && v.empty != "":
		r.problem(pointer, "%s", v.empty)
	}
	*v.to = make([]T, len(n.items))
	for i, item := range n.items {
		p := r.item(pointer, i, item)
		(*v.to)[i] = v.new(i)
		v.of(&(*v.to)[i]).read(r, item, p)
	}
	if len(n.items) == 0 {
		*v.to = nil
	}
}

func (v list[T]) new(i int) T {
	if v.blank == nil {
		var zero T
		return zero
	}
	return v.blank(i)
}

func (v list[T]) schema(d jsonschema.Definitions) *jsonschema.Schema {
	one := v.of(new(T)).schema(d)
	all := &jsonschema.Schema{Type: "array", Items: one, MinItems: new(uint64(1)), MaxItems: new(uint64(v.most))}
	if !v.single {
		return all
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{one, all}}
}
