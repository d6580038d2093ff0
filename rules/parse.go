package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"deadman/internal/access"
	"deadman/internal/calendars"
	"deadman/internal/configfile"
)

// maxRules is the largest number of rules in a text.
const maxRules = 2000

var tooManyRules = fmt.Sprintf("a text may hold %d rules, and this one holds more; split it", maxRules)

// MaxSize is the largest text of rules, in bytes.
const MaxSize = 256 << 10

// Parse reads the rules of a text, YAML or JSON, with one or several documents. file is the name in problems. The
// result is complete: defaults are filled in, and Compile accepts it. The error is Problems and holds all of them, in
// the order of the text; if the text is not YAML at all, it holds only the first syntax error. Parse does not know the
// defined calendars; ParseAgainst does.
func Parse(data []byte, file string) ([]Document, error) {
	return ParseAgainst(data, file, nil)
}

// ParseAgainst is Parse for rules that are to run with these calendars: a step with an undefined calendar is a problem.
func ParseAgainst(data []byte, file string, known calendars.Set) ([]Document, error) {
	placed, err := parse(data, file, known)
	if err != nil {
		return nil, err
	}
	docs := make([]Document, len(placed))
	for i, d := range placed {
		docs[i] = d.Document
	}
	return docs, nil
}

// parsedDocument is a document with the places of its fields in the text, by their pointers.
type parsedDocument struct {
	Document
	places map[string]place
}

// parse is Parse, with the places. It returns the documents of an invalid text, too, as far as they can be separated.
func parse(data []byte, file string, known calendars.Set) ([]parsedDocument, error) {
	return parseAmid(data, file, environment{calendars: known})
}

// parseAmid is parse for a caller that may leave before it ends; then the result is of no use.
func parseAmid(data []byte, file string, world environment) ([]parsedDocument, error) {
	nodes, ps := readText(data)
	var docs []parsedDocument
	seen := make(map[string]int)
	patterns := maxTextPatterns
	for _, n := range nodes {
		d, problems := readDocument(n, world, &patterns)
		if line, twice := seen[d.Name]; twice && d.Name != "" {
			problems = append(problems, Problem{
				Line: n.line, Column: n.column, Pointer: "/name", Rule: d.Name,
				Message: fmt.Sprintf("the name is already used by the rule on line %d; names are unique", line),
			})
		}
		seen[d.Name] = n.line
		ps = append(ps, problems...)
		docs = append(docs, d)
	}
	ps = ps.listed()
	for i := range ps {
		ps[i].File = file
	}
	return docs, ps.orNil()
}

// readText parses a text after checking its size.
func readText(data []byte) ([]node, Problems) {
	begin := Problem{Line: 1, Column: 1}
	if len(data) > MaxSize {
		begin.Message = fmt.Sprintf("a file of rules may hold %d bytes, and this one holds more; split it", MaxSize)
		return nil, Problems{begin}
	}
	text, p := configfile.Text(data)
	if p != nil {
		return nil, Problems{problemOf(p)}
	}
	var nodes []node
	var ps Problems
	if looksLikeJSON(text) {
		nodes, ps = readJSON(text)
	} else {
		nodes, ps = readYAML(text)
	}
	if len(nodes) == 0 && len(ps) == 0 {
		begin.Message = `there is no rule here; one begins with "name:"`
		ps = Problems{begin}
	}
	return nodes, ps
}

// readDocument makes a document of a node: it checks first its shape, then its meaning.
func readDocument(n node, world environment, patterns *int) (parsedDocument, Problems) {
	r := reader{places: map[string]place{"": n.place}, single: make(map[string]bool)}
	d := r.document(n)
	shape := slices.Clone(r.problems)
	room := min(*patterns, maxRulePatterns)
	c := newCompiler(d, world, r.single, room)
	_, problems := c.rule(RuleVersion{})
	*patterns -= room - c.patterns
	for _, p := range problems {
		if !shape.near(p.Pointer) {
			r.problem(p.Pointer, "%s", p.Message)
		}
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	for i := range r.problems {
		r.problems[i].Rule = d.Name
	}
	return parsedDocument{d, r.places}, r.problems
}

// nearestPlace returns the place of the pointer, or of the nearest element around it.
func (r *reader) nearestPlace(pointer string) place {
	for {
		if at, ok := r.places[pointer]; ok {
			return at
		}
		pointer = pointer[:max(strings.LastIndexByte(pointer, '/'), 0)]
	}
}

// problem returns a problem with a field of the document.
func (d parsedDocument) problem(file, pointer, message string) Problem {
	at := d.places[pointer]
	return Problem{File: file, Line: at.line, Column: at.column, Pointer: pointer, Rule: d.Name, Message: message}
}

// within refuses a document that exceeds the bounds, at the places of its text.
func (d parsedDocument) within(b *access.Bounds) error {
	problems := d.outOf(b)
	for i, p := range problems {
		problems[i] = d.nearest(p.Pointer, p.Message)
	}
	return problems.orNil()
}

// bindEmitted ensures that a stream stores the events that the rule's ticks publish.
func (d parsedDocument) bindEmitted(ctx context.Context, bind func(context.Context, []string) ([]StreamBinding, error)) error {
	emit := d.Trigger.Emit
	if emit == nil {
		return nil
	}
	_, err := bind(ctx, []string{emit.Subject})
	if errors.Is(err, ErrSubject) {
		return Problems{d.problem("", "/trigger/emit/subject", err.Error())}
	}
	return wrapErr("bind "+d.Name, err)
}

// replaces refuses a document that cannot be saved over the existing rule, at a version, or within the bounds.
func (d parsedDocument) replaces(before *ListedRule, at int32, o SaveOptions, b *access.Bounds) error {
	switch {
	case o.Version == 0 && before != nil:
		return fmt.Errorf("rule %s already exists, at version %d: %w", d.Name, at, ErrConflict)
	case o.Version != AnyVersion && o.Version != at:
		return fmt.Errorf("rule %s is at version %d, not %d: %w", d.Name, at, o.Version, ErrConflict)
	case before != nil && before.Bundle != "" && before.Bundle != o.Bundle && !o.Adopt:
		return fmt.Errorf("%w, %s: change rule %s there, or adopt it (--adopt)", ErrBundle, before.Bundle, d.Name)
	case before != nil && before.Entity != d.Entity:
		return Problems{d.problem("", "/entity", fmt.Sprintf("the entity of the rule is %q; %s", before.Entity, ErrEntityChanged))}
	}
	return d.within(b)
}

// nearest returns a problem at the place of a field, or of the nearest element around it.
func (d parsedDocument) nearest(pointer, message string) Problem {
	p := d.problem("", pointer, message)
	at := (&reader{places: d.places}).nearestPlace(pointer)
	p.Line, p.Column = at.line, at.column
	return p
}
