package migrations_test

import (
	"regexp"
	"slices"
	"strings"
)

// statement is a statement of a migration.
type statement struct {
	line   int      // of its first word
	words  []string // keywords and unquoted names in upper case; a quoted name, a text or a sign is one word
	unused string   // the release of the comment "-- unused since RELEASE: reason" before the statement; empty: none
}

// maxShown is the number of words of a statement in a message.
const maxShown = 12

// String returns the beginning of the statement.
func (s statement) String() string {
	if len(s.words) > maxShown {
		return strings.Join(s.words[:maxShown], " ") + " …"
	}
	return strings.Join(s.words, " ")
}

var (
	// lexeme matches the next part of a text: space, a comment, a text, a quoted name, a word, or a sign. The text between
	// dollar quotes follows in dollarQuote, because Go's expressions have no back references.
	lexeme = regexp.MustCompile(`(?s)^(?:\s+|--[^\n]*|/\*.*?\*/|[eE]?'(?:[^'\\]|''|\\.)*'|"(?:[^"]|"")*"|\w+|.)`)
	// dollarQuote matches the beginning of a text between dollar quotes.
	dollarQuote = regexp.MustCompile(`^\$\w*\$`)
	// unusedSince matches the comment that permits a statement which takes something away.
	unusedSince = regexp.MustCompile(`^--\s*unused since (\d+\.\d+\.\d+): \S`)
	// gooseDown matches the comment of goose that begins the statements of a downgrade.
	gooseDown = regexp.MustCompile(`^--\s*\+goose\s+Down\b`)
)

// split returns the statements of a migration. A downgrade ends it as the statement "+GOOSE DOWN".
func split(text string) (all []statement) {
	var current statement
	for line := 1; text != ""; {
		part := lexeme.FindString(text)
		if mark := dollarQuote.FindString(text); mark != "" {
			part = text
			if end := strings.Index(text[len(mark):], mark); end >= 0 {
				part = text[:2*len(mark)+end]
			}
		}
		switch {
		case strings.TrimSpace(part) == "" || strings.HasPrefix(part, "/*"):
		case gooseDown.MatchString(part):
			return append(all, statement{line: line, words: []string{"+GOOSE", "DOWN"}})
		case strings.HasPrefix(part, "--"):
			if found := unusedSince.FindStringSubmatch(part); found != nil && len(current.words) == 0 {
				current.unused = found[1]
			}
		case part == ";":
			if len(current.words) > 0 {
				all = append(all, current)
			}
			current = statement{}
		default:
			if len(current.words) == 0 {
				current.line = line
			}
			if !strings.ContainsAny(part[:1], `'"$`) {
				part = strings.ToUpper(part)
			}
			current.words = append(current.words, part)
		}
		line += strings.Count(part, "\n")
		text = text[len(part):]
	}
	if len(current.words) > 0 {
		all = append(all, current)
	}
	return all
}

// skip returns the words after the given ones, each of which may be missing.
func skip(words []string, optional ...string) []string {
	for _, o := range optional {
		if len(words) > 0 && words[0] == o {
			words = words[1:]
		}
	}
	return words
}

// begins reports whether words begin with others.
func begins(words []string, with ...string) bool {
	return len(words) >= len(with) && slices.Equal(words[:len(with)], with)
}

// name returns the name at the beginning of words, without its schema and quotes, and the words after it.
func name(words []string) (string, []string) {
	for len(words) > 2 && words[1] == "." {
		words = words[2:]
	}
	if len(words) == 0 {
		return "", nil
	}
	return strings.ToUpper(strings.Trim(words[0], `"`)), words[1:]
}

// items returns the parts of words between the commas outside of parentheses.
func items(words []string) (all [][]string) {
	depth, from := 0, 0
	for i, w := range words {
		switch {
		case w == "(":
			depth++
		case w == ")":
			depth--
		case w == "," && depth == 0:
			all, from = append(all, words[from:i]), i+1
		}
	}
	return append(all, words[from:])
}
