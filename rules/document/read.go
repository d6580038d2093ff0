package document

import (
	"fmt"
	"slices"

	"deadman/internal/configfile"
)

// Parsed is a document with the places of its fields in a text.
type Parsed struct {
	Document
	// Text is the document as its author wrote it in YAML, with comments; empty: it is JSON, or shares its first line with
	// the header of the document.
	Text     string
	Single   map[string]bool // lists that were written as the one mapping they hold, by their pointers
	places   map[string]place
	problems Problems // with the form
}

// Read reads the documents of a text, YAML or JSON. The problems are those of the text as a whole; each document has its
// own.
func Read(text []byte) ([]Parsed, Problems) {
	nodes, problems := readText(text)
	texts := documentTexts(text)
	var all []Parsed
	for _, n := range nodes {
		r := reader{places: map[string]place{"": n.place}, single: make(map[string]bool)}
		d := r.document(n)
		all = append(all, Parsed{Document: d, Text: textAt(texts, n.place.line), Single: r.single, places: r.places, problems: r.problems})
	}
	return all, problems
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
	if isJSONLike(text) {
		nodes, ps = readJSON(text)
	} else {
		nodes, ps = readYAML(text)
	}
	if slices.ContainsFunc(nodes, node.isCalendars) {
		begin.Message = "it has calendars, not rules: apply them with deadman calendar apply FILE, or name the file in --calendars, and keep it outside of the folder of rules"
		return nil, Problems{begin}
	}
	if len(nodes) == 0 && len(ps) == 0 {
		begin.Message = `there is no rule here; one begins with "name:"`
		ps = Problems{begin}
	}
	return nodes, ps
}

// Problem returns a problem with a field of the document.
func (p Parsed) Problem(file, pointer, message string) Problem {
	at := p.places[pointer]
	return Problem{File: file, Line: at.line, Column: at.column, Pointer: pointer, Rule: p.Name, Message: message}
}

// Nearest returns a problem at the place of a field, or of the nearest element around it.
func (p Parsed) Nearest(pointer, message string) Problem {
	problem := p.Problem("", pointer, message)
	at := nearestPlace(p.places, pointer)
	problem.Line, problem.Column = at.line, at.column
	return problem
}

// With returns the problems with the form and those with the meaning, in the order of the text. It leaves out the
// problems with the meaning of fields whose form is wrong.
func (p Parsed) With(meaning Problems) Problems {
	all := slices.Clone(p.problems)
	for _, m := range meaning {
		if len(all) <= MaxProblems && !p.problems.near(m.Pointer) {
			all = append(all, p.Nearest(m.Pointer, m.Message))
		}
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	for i := range all {
		all[i].Rule = p.Name
	}
	return all
}
