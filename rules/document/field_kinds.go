package document

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"deadman/alerts"
	"deadman/internal/configfile"

	"github.com/invopop/jsonschema"
)

// value is the type of a field of the document: how it is read, and how a schema describes it. Its kinds are below.
type value interface {
	// read stores the node's value in its field, and records a wrong shape.
	read(r *reader, n node, pointer string)
	schema(jsonschema.Definitions) *jsonschema.Schema
}

// text is a value that is text.
type text struct {
	to      *string
	pattern string // for the schema
	most    int    // characters, for the schema; 0: any
	empty   bool   // it may be empty
	example string // of a text that is never a number; empty: a quoted number may be right
}

func (v text) read(r *reader, n node, p string) {
	switch n.kind {
	case aText:
		*v.to = n.text
		if n.text == "" && !v.empty {
			r.problem(p, "the text is empty; write one or remove the field")
		}
	case aNumber, aBoolean:
		if v.example != "" {
			r.problem(p, "expected text, not %s; write text such as %q", n.kind, v.example)
			return
		}
		r.problem(p, "expected text, not %s; quote it: %q", n.kind, n.text)
	case aNull:
		r.problem(p, "the field has no value; set one or remove the field")
	default:
		r.problem(p, "expected text, not %s", n.kind)
	}
}

func (v text) schema(jsonschema.Definitions) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string", Pattern: v.pattern}
	if v.most > 0 {
		s.MaxLength = new(uint64(v.most))
	}
	return s
}

// choice is a value that is one of a few words. The compiler of package rules checks whether it is.
type choice struct {
	to *string
	of []string
}

func (v choice) read(r *reader, n node, p string) {
	if n.kind == aNumber || n.kind == aBoolean {
		r.problem(p, "expected one of %s, not %s", strings.Join(v.of, ", "), n.kind)
		return
	}
	text{to: v.to}.read(r, n, p)
}

func (v choice) schema(jsonschema.Definitions) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, word := range v.of {
		s.Enum = append(s.Enum, word)
	}
	return s
}

// template is a text with expressions in it, which YAML may have converted into another type.
type template struct{ to *string }

func (v template) read(r *reader, n node, p string) {
	if n.kind != aNumber && n.kind != aBoolean {
		source(v).read(r, n, p)
		return
	}
	*v.to = unread
	r.problem(p, "%s is %s here, not text; quote it: %q", n.text, n.kind, n.text)
}

func (v template) schema(d jsonschema.Definitions) *jsonschema.Schema { return source(v).schema(d) }

// source is an expression: text that YAML may have converted into another type.
type source struct{ to *string }

func (v source) read(r *reader, n node, p string) {
	switch n.kind {
	case aText:
		*v.to = n.text
		if strings.TrimSpace(n.text) == "" {
			*v.to = unread
			r.problem(p, "the expression is empty; write one or remove the field")
		}
	case aBoolean:
		*v.to = unread
		if n.text == "false" && isPauseCondition(p) {
			r.problem(p, "%s", NeverPauses)
			return
		}
		r.problem(p, "%s is %s here, not an expression; write a condition that reads a field, such as event.paid == %[1]s", n.text, n.kind)
	case aNumber:
		*v.to = unread
		r.problem(p, "%s is %s here, not an expression; write one that reads a field, such as event.n", n.text, n.kind)
	default:
		*v.to = unread
		r.problem(p, `YAML read this as %s; quote the whole expression if it contains ": " or " #", or begins with "{" or "["`, n.kind)
	}
}

// NeverPauses is the problem of a pause whose condition is false: it was meant as the end of another pause.
const NeverPauses = "the condition is never true, so this pause never begins; remove this pause. If its event should end another pause, name the event there, such as until: orders.released"

// isPauseCondition reports whether a pointer belongs to the condition of a pause.
func isPauseCondition(p string) bool {
	return strings.HasPrefix(p, "/pause") && strings.HasSuffix(p, "/if") && !strings.Contains(p, "/until")
}

// unread replaces a value that cannot be read, so that it is not reported as missing too.
const unread = "?"

func (v source) schema(jsonschema.Definitions) *jsonschema.Schema { return filled() }

// filled returns the schema of text that is not empty.
func filled() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `\S`, MaxLength: new(uint64(MaxExpression))}
}

// boolean is a value that is true or false.
type boolean struct{ to *bool }

func (v boolean) read(r *reader, n node, p string) {
	switch {
	case n.kind == aBoolean:
		*v.to = strings.EqualFold(n.text, "true")
	case slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(n.text)):
		r.problem(p, "%s is text in YAML 1.2; write true or false", n.text)
	default:
		r.problem(p, "expected true or false, not %s", n.kind)
	}
}

func (v boolean) schema(jsonschema.Definitions) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "boolean"}
}

// positiveInt is a whole number from 1. The compiler of package rules checks the maximum.
type positiveInt struct {
	to   *int
	most int // for the schema
}

func (v positiveInt) read(r *reader, n node, p string) {
	if i, ok := whole(n); ok {
		*v.to = i
		return
	}
	r.problem(p, "expected a whole number from 1, such as 3, not %s", describe(n))
}

func (v positiveInt) schema(jsonschema.Definitions) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: "1", Maximum: json.Number(strconv.Itoa(v.most))}
}

// WholeNumber returns a text that is a whole number from 1, without a sign and leading zeros.
func WholeNumber(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && strconv.Itoa(n) == text
}

func whole(n node) (int, bool) {
	i, ok := WholeNumber(n.text)
	return i, ok && n.kind == aNumber
}

// number is a count, or an expression that yields one.
type number struct{ to *string }

func (v number) read(r *reader, n node, p string) {
	switch _, ok := whole(n); {
	case ok:
		*v.to = n.text
	case n.kind == aNumber:
		*v.to = unread
		r.problem(p, "expected a whole number from 1, such as 3, or an expression, not %s", describe(n))
	default:
		source(v).read(r, n, p)
	}
}

func (v number) schema(d jsonschema.Definitions) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{positiveInt{most: MaxNeed}.schema(d), filled()}}
}

// duration is a value that is a span.
type duration struct{ to *Duration }

func (v duration) read(r *reader, n node, p string) {
	switch {
	case n.kind == aNumber && n.text == "0":
		*v.to = 0
	case n.kind == aNumber:
		r.problem(p, `%s has no unit; write "%ss", "%sm" or "%sh"`, n.text, n.text, n.text, n.text)
	case n.kind != aText:
		r.problem(p, `expected a duration such as "15m", not %s`, n.kind)
	default:
		d, err := ParseDuration(n.text)
		if err != nil {
			r.problem(p, "%s", err.Error())
		}
		*v.to = d
	}
}

func (v duration) schema(jsonschema.Definitions) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", Pattern: durationPattern}, {Type: "integer", Enum: []any{0}},
	}}
}

// delay is a duration, or an expression that yields one.
type delay struct{ to *Delay }

func (v delay) read(r *reader, n node, p string) {
	if n.kind != aText || isSpanLike(n.text) {
		known := len(r.problems)
		duration{&v.to.Fixed}.read(r, n, p)
		v.to.AtOnce = v.to.Fixed == 0 && len(r.problems) == known
		return
	}
	source{&v.to.Computed}.read(r, n, p)
}

func (v delay) schema(d jsonschema.Definitions) *jsonschema.Schema {
	s := duration{}.schema(d)
	s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Type: "string", Pattern: `^\s*[^-+.0-9\s]`})
	return s
}

// textMap is a mapping of names to text.
type textMap struct{ to *map[string]string }

func (v textMap) read(r *reader, n node, pointer string) {
	if n.kind != aMapping {
		r.problem(pointer, "expected a mapping of names to text, not %s; write: labels: {team: fulfilment}", n.kind)
		return
	}
	*v.to = make(map[string]string)
	r.each(n, pointer, func(f field, p string) {
		var value string
		r.places[p] = f.value.place
		text{to: &value, empty: true}.read(r, f.value, p)
		(*v.to)[f.name] = value
	})
}

func (v textMap) schema(jsonschema.Definitions) *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", MaxProperties: new(uint64(MaxLabels)),
		PropertyNames:        &jsonschema.Schema{Pattern: alerts.LabelPattern.String()},
		AdditionalProperties: &jsonschema.Schema{Type: "string", MaxLength: new(uint64(MaxLabel))},
	}
}

// mapping is a value with fields of its own.
type mapping struct {
	name     string // of its definition in the schema
	entries  []entry
	required []string          // for the schema
	either   []string          // one of these has to exist, for the schema
	reserved map[string]string // names that are no fields, and why
}

// entry is a field that a mapping may have.
type entry struct {
	name       string
	schemaText string // for the schema
	value      value
}

func (v mapping) read(r *reader, n node, pointer string) { r.mapping(n, pointer, v) }

func (v mapping) names() []string {
	all := make([]string, len(v.entries))
	for i, e := range v.entries {
		all[i] = e.name
	}
	return all
}

// optionalMapping is a mapping that exists only if it is written.
type optionalMapping[T any] struct {
	to *(*T)
	of func(*T) mapping
}

func (v optionalMapping[T]) read(r *reader, n node, pointer string) {
	*v.to = new(T)
	v.of(*v.to).read(r, n, pointer)
}

func (v optionalMapping[T]) schema(d jsonschema.Definitions) *jsonschema.Schema {
	return v.of(new(T)).schema(d)
}

// eventOrSubject is an event that is written as a mapping, or as its subject alone.
type eventOrSubject struct{ to **Watch }

func (v eventOrSubject) read(r *reader, n node, pointer string) {
	*v.to = new(Watch)
	if n.kind == aMapping {
		(*v.to).until().read(r, n, pointer)
		return
	}
	subjectOf(&(*v.to).Event).read(r, n, pointer)
}

func (v eventOrSubject) schema(d jsonschema.Definitions) *jsonschema.Schema {
	w := new(Watch)
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{w.until().schema(d), subjectOf(&w.Event).schema(d)}}
}

func describe(n node) string {
	if n.text == "" {
		return string(n.kind)
	}
	return fmt.Sprintf("%q", configfile.Truncate(n.text, 40))
}
