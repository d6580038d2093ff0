package rules

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of a text.
const (
	maxTemplate = 4 << 10 // bytes, as written
	maxText     = 4 << 10 // bytes, as rendered
	maxParts    = 64      // expressions in it
)

// template is text with expressions in {{ }}.
type template struct {
	parts []part
}

// part is plain text, or an expression.
type part struct {
	text string
	x    *expression
}

// compileTemplate parses a text. Errors are for people.
func compileTemplate(s string, d exprEnv) (*template, error) {
	if len(s) > maxTemplate {
		return nil, fmt.Errorf("the text has %d bytes, the most is %d", len(s), maxTemplate)
	}
	t := &template{}
	for {
		before, rest, found := strings.Cut(s, "{{")
		t.parts = append(t.parts, part{text: before})
		if !found {
			return t, nil
		}
		if len(t.parts) > 2*maxParts {
			return nil, fmt.Errorf("the text has more than %d expressions; make it shorter", maxParts)
		}
		end := closing(rest)
		if quoted := strings.Index(rest, "}}"); end < 0 && quoted >= 0 {
			end = quoted // a quote in it is not closed, which the compiler reports
		}
		if end < 0 {
			return nil, errors.New(`"{{" is never closed; write "}}" behind the expression`)
		}
		source := strings.TrimSpace(rest[:end])
		if source == "" {
			return nil, errors.New(`"{{}}" is empty; write an expression in it, such as {{key}}`)
		}
		x, err := compileExpression(source, d)
		if err != nil {
			return nil, fmt.Errorf("{{%s}}: %w", clip(source, 80), err)
		}
		t.parts = append(t.parts, part{x: x})
		s = rest[end+2:]
	}
}

// closing returns the index of the first "}}" outside of quotes, or -1.
func closing(s string) int {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\' && quote != '`':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '}' && strings.HasPrefix(s[i:], "}}"):
			return i
		}
	}
	return -1
}

// constant returns the text if it has no expressions.
func (t *template) constant() (string, bool) {
	for _, p := range t.parts {
		if p.x != nil {
			return "", false
		}
	}
	return t.render(scope{}), true
}

// render renders the template. An expression that cannot be evaluated is replaced by its error: an alert is never lost
// because of its text.
func (t *template) render(s scope) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.x == nil {
			b.WriteString(p.text)
			continue
		}
		b.WriteString(p.fill(s))
		if b.Len() > maxText {
			break
		}
	}
	if b.Len() <= maxText {
		return b.String()
	}
	return strings.ToValidUTF8(b.String()[:maxText-len("…")], "") + "…"
}

func (p part) fill(s scope) string {
	v, err := p.x.run(s)
	if err == nil {
		var text string
		if text, err = show(v); err == nil {
			return text
		}
	}
	reason := strings.TrimPrefix(err.Error(), clip(p.x.source, 120)+": ")
	return fmt.Sprintf("{{%s: %s}}", clip(p.x.source, 80), reason)
}
