package rules

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"deadman/rules/document"

	"deadman/checks/lookup"
	"deadman/internal/access"
	"deadman/internal/subjects"
)

// lookupQuery is the query of a rule to a source at each check.
type lookupQuery struct {
	lookup.Question
	source   string
	pointer  string // the pointer to the question in the document
	params   int    // how many parameters a query has
	keyQuery func(s scope) (lookup.KeyQuery, error)
}

// written returns a value as a part of a question: text, a number, true or false, or an instant. A nil or missing value
// is an error, since the query would be about another entity.
func written(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New(`a value is missing; write a default, such as (event.region ?? "none")`)
	case []any, []string, []int, map[string]any, time.Duration:
		return "", fmt.Errorf("%s can't be a parameter of a query, only text, a number, true or false, or an instant", naming(v))
	}
	text, err := show(v)
	if err == nil && text == "" {
		err = errors.New("the text is empty")
	}
	return text, err
}

// renderQuery evaluates a template, with each value escaped by as. Unlike a text for people, an incomplete result is
// refused.
func (t *template) renderQuery(s scope, as func(string) (string, error)) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.x == nil {
			b.WriteString(p.text)
			continue
		}
		v, err := p.x.run(s)
		if err != nil {
			return "", err
		}
		text, err := written(v)
		if err == nil {
			text, err = as(text)
		}
		if err != nil {
			return "", fmt.Errorf("{{%s}}: %w", clip(p.x.source, 80), err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// renderSample returns the template with the same text in the place of each expression.
func (t *template) renderSample(text string) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.x == nil {
			b.WriteString(p.text)
		} else {
			b.WriteString(text)
		}
	}
	return b.String()
}

// parameters evaluates the values for $1, $2 and so on.
func parameters(params []*expression) func(scope) (lookup.KeyQuery, error) {
	return func(s scope) (lookup.KeyQuery, error) {
		values := make([]any, len(params))
		for i, x := range params {
			v, err := x.run(s)
			if err == nil && v != "" {
				_, err = written(v)
			}
			if err != nil {
				return lookup.KeyQuery{}, fmt.Errorf("params[%d]: %w", i, err)
			}
			values[i] = v
		}
		return lookup.KeyQuery{Params: values}, nil
	}
}

// path evaluates the path of a GET, with an optional query. No value extends beyond its segment, or its parameter of
// the query.
func path(t *template) func(scope) (lookup.KeyQuery, error) {
	return func(s scope) (lookup.KeyQuery, error) {
		filled, err := t.renderQuery(s, func(v string) (string, error) { return escaped(v), nil })
		if err == nil {
			err = checkPath(filled)
		}
		if err != nil {
			return lookup.KeyQuery{}, fmt.Errorf("path: %w", err)
		}
		return lookup.KeyQuery{Path: filled}, nil
	}
}

// escaped returns a value in a form that is valid in both a path and a query: they differ only in the meaning of a
// plus.
func escaped(v string) string { return strings.ReplaceAll(url.QueryEscape(v), "+", "%20") }

// maxPath bounds the length of an evaluated path, in bytes.
const maxPath = 4 << 10

// checkPath returns why an evaluated path is invalid.
func checkPath(p string) error {
	way, query, _ := strings.Cut(p, "?")
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is not a path; it begins with a slash, and the source knows the host", clip(p, 80))
	case strings.Contains(p, "#"):
		return fmt.Errorf(`%q is more than a path with a query; write it without "#"`, clip(p, 80))
	case strings.Contains(way, "//"):
		return fmt.Errorf("%q has an empty segment", clip(p, 80))
	case len(p) > maxPath:
		return fmt.Errorf("the path has %d bytes, the most is %d", len(p), maxPath)
	case strings.ContainsFunc(p, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\\' }):
		return fmt.Errorf("%q has a character that a path can't have; write it escaped, as %%20 for a space", clip(p, 80))
	}
	if plain, err := url.PathUnescape(way); err == nil && (&url.URL{Path: plain, RawPath: way}).EscapedPath() != way {
		return fmt.Errorf("%q has a character that a path can't have; write it escaped, as %s", clip(p, 80), clip((&url.URL{Path: plain}).EscapedPath(), 80))
	}
	for segment := range strings.SplitSeq(way[1:], "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return fmt.Errorf("%q leads elsewhere: a segment can't be %q", clip(p, 80), segment)
		}
	}
	if _, err := url.ParseQuery(query); err != nil {
		return fmt.Errorf("%q has a query that can't be read; write it like ?id={{key}}&full=true", clip(p, 80))
	}
	return nil
}

// requestSubject evaluates the subject of a request, within the bounds of the rule. A value is one token of it, or a
// part of one.
func requestSubject(t *template, bounds *access.Bounds) func(scope) (lookup.KeyQuery, error) {
	return func(s scope) (lookup.KeyQuery, error) {
		filled, err := t.renderQuery(s, subjectToken)
		if err == nil {
			err = subjects.CheckLiteral(filled)
		}
		if err == nil {
			err = bounds.MayPublish(filled)
		}
		if err != nil {
			return lookup.KeyQuery{}, fmt.Errorf("subject: %w", err)
		}
		return lookup.KeyQuery{Subject: filled}, nil
	}
}

// subjectToken returns a value that is valid in a token of a subject.
func subjectToken(v string) (string, error) {
	if i := strings.IndexFunc(v, func(r rune) bool { return strings.ContainsRune(".*>", r) || unicode.IsSpace(r) || unicode.IsControl(r) }); i >= 0 {
		return "", fmt.Errorf("%q can't be part of a subject because of the %q in it", clip(v, 80), []rune(v[i:])[0])
	}
	return v, nil
}

// kvKey matches the keys of a bucket that JetStream accepts.
var kvKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

// entryKey evaluates the key of an entry of a bucket.
func entryKey(t *template) func(scope) (lookup.KeyQuery, error) {
	return func(s scope) (lookup.KeyQuery, error) {
		filled, err := t.renderQuery(s, func(v string) (string, error) { return v, nil })
		if err == nil {
			err = checkEntryKey(filled)
		}
		if err != nil {
			return lookup.KeyQuery{}, fmt.Errorf("key: %w", err)
		}
		return lookup.KeyQuery{Key: filled}, nil
	}
}

// checkEntryKey returns why a key of a bucket is invalid.
func checkEntryKey(key string) error {
	if !kvKey.MatchString(key) || len(key) > subjects.MaxBytes {
		return fmt.Errorf("%q can't be a key of a bucket: that has letters, digits, / _ = - and single dots between", clip(key, 80))
	}
	return nil
}

// columnsOf returns the columns as the shape of the data that the source finds.
func columnsOf(columns []lookup.Column) document.Shape {
	if len(columns) == 0 {
		return nil
	}
	s := make(document.Shape, len(columns))
	for _, c := range columns {
		s[c.Name] = document.Form{Kind: document.Kind(c.Type)}
	}
	return s
}
