package document

import (
	"fmt"
	"slices"
	"strings"

	"deadman/internal/configfile"
)

// reader makes a Document of nodes and records values of the wrong shape.
type reader struct {
	places   map[string]place
	single   map[string]bool // lists that were written as the one mapping they hold
	problems Problems
}

func (r *reader) problem(pointer, format string, args ...any) {
	if len(r.problems) > MaxProblems {
		return
	}
	at := nearestPlace(r.places, pointer)
	r.problems = append(r.problems, Problem{
		Line: at.line, Column: at.column, Pointer: pointer, Message: fmt.Sprintf(format, args...),
	})
}

// nearestPlace returns the place of the pointer, or of the nearest element around it.
func nearestPlace(places map[string]place, pointer string) place {
	for {
		if at, ok := places[pointer]; ok {
			return at
		}
		pointer = pointer[:max(strings.LastIndexByte(pointer, '/'), 0)]
	}
}

func (r *reader) document(n node) Document {
	d := New()
	d.fields().read(r, n, "")
	for _, p := range d.Pause {
		if p.Until != nil && p.Until.Key == "" {
			p.Until.Key = p.Key
		}
	}
	late, checks := d.catchUp(), d.defaultMaxChecks()
	if _, written := r.places["/hold"]; !written {
		d.Hold = d.holdDuration()
	}
	if _, written := r.places["/catch_up/after"]; !written {
		d.CatchUp.After = late
	}
	if _, written := r.places["/again"]; !written {
		d.Again = d.again()
	}
	if d.Guards.MaxChecks == 0 {
		d.Guards.MaxChecks = checks
	}
	return d
}

// mapping passes each field of n to its value. Unknown fields are refused, and so are fields without a value.
func (r *reader) mapping(n node, pointer string, m mapping) {
	if n.kind != aMapping {
		r.problem(pointer, "expected a mapping with the fields %s, not %s", strings.Join(m.names(), ", "), n.kind)
		return
	}
	r.each(n, pointer, func(f field, p string) {
		i := slices.IndexFunc(m.entries, func(e entry) bool { return e.name == f.name })
		switch {
		case i < 0 && m.reserved[f.name] != "":
			r.problem(p, "%s", m.reserved[f.name])
		case i < 0:
			r.problem(p, "%s", configfile.UnknownName("field", f.name, m.names()))
		case f.value.kind == aNull:
			r.problem(p, "the field has no value; set one or remove the field")
		default:
			if f.value.kind != aMapping && f.value.kind != aSequence {
				r.places[p] = f.value.place
			}
			m.entries[i].value.read(r, f.value, p)
		}
	})
}

// each passes on the fields of a mapping, a duplicate field only once.
func (r *reader) each(n node, pointer string, use func(f field, p string)) {
	seen := make(map[string]bool)
	for _, f := range n.fields {
		p := FieldPointer(pointer, f.name)
		r.places[p] = f.place
		if seen[f.name] {
			r.problem(p, "the field is duplicated; keep one")
			continue
		}
		seen[f.name] = true
		use(f, p)
	}
}

// items passes on the items of a list that is not empty.
func (r *reader) items(n node, pointer string, use func(n node, p string)) {
	switch {
	case n.kind != aSequence:
		r.problem(pointer, "expected a list, not %s; write it in brackets, also where there is only one: [a]", n.kind)
	case len(n.items) == 0:
		r.problem(pointer, "the list is empty; remove the field")
	}
	for i, v := range n.items {
		use(v, r.item(pointer, i, v))
	}
}

// item returns the pointer of a list's item, and records its place.
func (r *reader) item(pointer string, i int, n node) string {
	p := ItemPointer(pointer, i)
	r.places[p] = n.place
	return p
}

// node is a value of a document with its place in the text, regardless of the text's format.
type node struct {
	place
	kind   kind
	text   string  // of a scalar, as written
	fields []field // of a mapping, in order
	items  []node  // of a sequence
}

// isCalendars reports whether a document is a file of calendars.
func (n node) isCalendars() bool {
	return len(n.fields) == 1 && n.fields[0].name == "calendars" && len(n.fields[0].value.fields) > 0
}

// place is a position in a text, both numbers from 1.
type place struct{ line, column int }

type field struct {
	place
	name  string
	value node
}

type kind string

// The kinds of nodes, as messages name them.
const (
	aMapping  kind = "a mapping"
	aSequence kind = "a list"
	aText     kind = "text"
	aNumber   kind = "a number"
	aBoolean  kind = "a boolean"
	aNull     kind = "no value"
)
