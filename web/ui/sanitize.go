package ui

import (
	"fmt"
	"strings"
	"unicode"
)

// escapeControls is a text in which nothing works in secret: what turns text around, moves a cursor, or
// can't be seen is written out as its code point. Line breaks stay.
func escapeControls(text string) string {
	if !strings.ContainsFunc(text, isSecret) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if isSecret(r) {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// isSecret reports whether a character is a control or a format of Unicode, such as U+202E, which
// has what follows run from right to left.
func isSecret(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}
