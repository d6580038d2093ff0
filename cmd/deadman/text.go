package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sanitize escapes untrusted text for a terminal and for a table cell: control characters, marks that change the
// writing direction, and invalid UTF-8.
func sanitize(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unprintable(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// plainLines applies sanitize to each line of a text.
func plainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = sanitize(line)
	}
	return strings.Join(lines, "\n")
}

func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// plainJSON escapes the same characters in JSON, except line ends. The JSON keeps its meaning, because such runes
// occur in strings only.
func plainJSON(raw []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(raw) {
		switch {
		case r == '\n' || unicode.IsPrint(r) || r > 0xffff:
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// clip shortens a text to limit characters.
func clip(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}

// number formats a count with its noun.
func number(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// wrapText breaks a text at spaces into lines of up to room characters; 0 means no limit. A longer word, such as a link,
// stays whole.
func wrapText(text string, room int) (lines []string) {
	rest := []rune(text)
	for room > 0 && len(rest) > room {
		end := room
		for end > 0 && rest[end] != ' ' {
			end--
		}
		if end == 0 {
			end = max(slices.Index(rest[1:], ' ')+1, 0)
		}
		if end == 0 {
			break
		}
		lines = append(lines, strings.TrimRight(string(rest[:end]), " "))
		rest = []rune(strings.TrimLeft(string(rest[end:]), " "))
	}
	return append(lines, string(rest))
}
