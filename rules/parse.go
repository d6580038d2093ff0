package rules

import (
	"fmt"

	"deadman/rules/document"

	"deadman/internal/access"
	"deadman/internal/calendars"
	"deadman/internal/configfile"
)

// Parse reads the rules of a text, YAML or JSON, with one or several documents. file is the name in problems. The
// result is complete: defaults are filled in, and Compile accepts it. The error is Problems and holds all of them, in
// the order of the text; if the text is not YAML at all, it holds only the first syntax error. Parse does not know the
// defined calendars; ParseAgainst does.
func Parse(data []byte, file string) ([]document.Document, error) {
	return ParseAgainst(data, file, nil)
}

// ParseAgainst is Parse for rules that are to run with these calendars: a step with an undefined calendar is a problem.
func ParseAgainst(data []byte, file string, known calendars.Set) ([]document.Document, error) {
	parsed, err := ParseWithTexts(data, file, known)
	if err != nil {
		return nil, err
	}
	docs := make([]document.Document, len(parsed))
	for i, d := range parsed {
		docs[i] = d.Document
	}
	return docs, nil
}

// ParseWithTexts is ParseAgainst with the text of each document.
func ParseWithTexts(data []byte, file string, known calendars.Set) ([]document.Parsed, error) {
	placed, err := parse(data, file, known)
	if err != nil {
		return nil, err
	}
	parsed := make([]document.Parsed, len(placed))
	for i, d := range placed {
		parsed[i] = d.Parsed
	}
	return parsed, nil
}

// parsedDocument is a document with the places of its fields in a text.
type parsedDocument struct{ document.Parsed }

// parse is Parse, with the places. It returns the documents of an invalid text, too, as far as they can be separated.
func parse(data []byte, file string, known calendars.Set) ([]parsedDocument, error) {
	return parseAmid(data, file, environment{calendars: known})
}

// parseAmid is parse for a caller that may leave before it ends; then the result is of no use.
func parseAmid(data []byte, file string, env environment) ([]parsedDocument, error) {
	parsed, ps := document.Read(data)
	var docs []parsedDocument
	seen := make(map[string]int)
	patterns := maxTextPatterns
	for _, p := range parsed {
		d := parsedDocument{p}
		problems := d.compile(env, &patterns)
		begin := d.Problem("", "", "")
		if line, twice := seen[d.Name]; twice && d.Name != "" {
			begin.Pointer, begin.Message = "/name", fmt.Sprintf("the name is already used by the rule on line %d; names are unique", line)
			problems = append(problems, begin)
		}
		seen[d.Name] = begin.Line
		ps = append(ps, problems...)
		docs = append(docs, d)
	}
	ps = ps.Listed()
	for i := range ps {
		ps[i].File = file
	}
	return docs, ps.OrNil()
}

// compile returns the problems with the form and the meaning of the document. It reduces patterns, the remaining size
// for the patterns of the text.
func (d parsedDocument) compile(env environment, patterns *int) document.Problems {
	room := min(*patterns, maxRulePatterns)
	c := newCompiler(d.Document, env, d.Single, room)
	_, problems := c.rule(RuleVersion{})
	*patterns -= room - c.patterns
	return d.With(problems)
}

// within refuses a document that exceeds the bounds, at the places of its text.
func (d parsedDocument) within(b *access.Bounds) error {
	problems := outOf(d.Document, b)
	for i, p := range problems {
		problems[i] = d.Nearest(p.Pointer, p.Message)
	}
	return problems.OrNil()
}

// clip keeps a message readable despite long quotes.
func clip(s string, most int) string { return configfile.Truncate(s, most) }
