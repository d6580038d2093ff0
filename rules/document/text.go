package document

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"

	"deadman/internal/configfile"
)

// documentText is the part of a YAML text that has one document.
type documentText struct {
	first int // its first line, from 1
	text  string
}

// documentTexts splits a YAML text at the headers and ends of its documents; nil for JSON, or if it has no tokens.
func documentTexts(data []byte) []documentText {
	text, p := configfile.Text(data)
	if p != nil || isJSONLike(text) {
		return nil
	}
	tokens, p := configfile.Tokens(text)
	if p != nil {
		return nil
	}
	lines := strings.SplitAfter(string(text), "\n")
	var all []documentText
	first := 1
	split := func(at int) {
		all = append(all, documentText{first, strings.Join(lines[first-1:max(at-1, first-1)], "")})
		first = at + 1
	}
	for _, tk := range tokens {
		if tk.Type == token.DocumentHeaderType || tk.Type == token.DocumentEndType {
			split(tk.Position.Line)
		}
	}
	if first <= len(lines) {
		split(len(lines) + 1)
	}
	return all
}

// textAt returns the text with a line, without blank lines around it; empty: no text has the line.
func textAt(texts []documentText, line int) string {
	for _, t := range slices.Backward(texts) {
		if t.first <= line {
			if text := strings.Trim(t.text, "\r\n"); text != "" {
				return text + "\n"
			}
			return ""
		}
	}
	return ""
}
