package calendars

import (
	"regexp"
	"strings"
)

var (
	entryLine = regexp.MustCompile(`^( +)([a-z0-9_-]+): *(.*)$`)
	indent    = regexp.MustCompile(`^ *`)
)

// Texts returns the text of each calendar of a file, with its comments, for ParseOne. A calendar whose text cannot be cut
// out of the file has the text of Document. The error is that of Parse.
func Texts(data []byte, file string) (map[string]string, error) {
	set, err := Parse(data, file)
	if err != nil {
		return nil, err
	}
	cut := cutTexts(string(data))
	texts := make(map[string]string, len(set))
	for name, c := range set {
		texts[name] = c.Document()
		if again, err := ParseOne([]byte(cut[name]), name); err == nil && again.Document() == c.Document() {
			texts[name] = cut[name]
		}
	}
	return texts, nil
}

// cutTexts returns the lines below each entry of calendars in a file, or the rest of its line.
func cutTexts(file string) map[string]string {
	texts := make(map[string]string)
	var name string
	var depth int     // of the entries
	var body []string // of the entry
	end := func() {
		texts[name] = unindented(body)
		name, body = "", nil
	}
	for line := range strings.Lines(file) {
		line = strings.TrimRight(line, "\r\n")
		m := entryLine.FindStringSubmatch(line)
		switch {
		case len(m) > 0 && (depth == 0 || len(m[1]) == depth):
			end()
			depth, name = len(m[1]), m[2]
			if m[3] != "" && !strings.HasPrefix(m[3], "#") {
				body = []string{m[3]}
			}
		case strings.TrimSpace(line) != "" && len(indent.FindString(line)) <= depth:
			end() // another field of the file, a comment between, or a name in quotes
		case name != "":
			body = append(body, line)
		}
	}
	end()
	return texts
}

// unindented returns lines without their common indent, and without empty ones at the end.
func unindented(lines []string) string {
	least := -1
	for _, line := range lines {
		if n := len(indent.FindString(line)); strings.TrimSpace(line) != "" && (least < 0 || n < least) {
			least = n
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line[min(max(least, 0), len(line)):] + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// FileOf returns a file with one calendar, given its text.
func FileOf(name, text string) string {
	var b strings.Builder
	b.WriteString("calendars:\n  " + name + ":\n")
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("    " + line)
		} else {
			b.WriteString("\n")
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
