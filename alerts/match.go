package alerts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxMatches is the largest number of fields in a match.
const MaxMatches = 20

// Fields lists the fields that a match can name beside the alert's labels.
var Fields = []string{"rule", "entity", "key", "severity", "status", "step"}

// Field returns the value of one of Fields, or else of the label with that name. It is empty if the alert has
// neither.
func (a Alert) Field(name string) string {
	switch name {
	case "rule":
		return a.Rule
	case "entity":
		return a.Entity
	case "key":
		return a.Key
	case "severity":
		return string(a.Severity)
	case "status":
		return string(a.Status)
	case "step":
		return a.Step
	}
	return a.Labels[name]
}

// Match maps field names to the patterns that an alert must match. In a pattern, * matches any text.
type Match map[string]string

// Matches reports whether the alert matches all patterns.
func (m Match) Matches(a Alert) bool {
	for name, pattern := range m {
		if !MatchPattern(a.Field(name), pattern) {
			return false
		}
	}
	return true
}

// Check returns an error if m is not a valid match.
func (m Match) Check() error {
	if len(m) == 0 {
		return errors.New("it names nothing, which would be every alert; name at least one field, such as rule, severity or a label")
	}
	if len(m) > MaxMatches {
		return fmt.Errorf("it names %d fields, and the limit is %d", len(m), MaxMatches)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch {
		case name == "" || len(name) > 100:
			return fmt.Errorf("a field's name has 1 to 100 bytes, and one has %d", len(name))
		case m[name] == "" || len(m[name]) > 512:
			return fmt.Errorf("%s: a pattern has 1 to 512 bytes, and this one has %d; * is any text", name, len(m[name]))
		}
	}
	return nil
}

// String returns the match in the form name=pattern, separated by spaces.
func (m Match) String() string {
	parts := make([]string, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+m[name])
	}
	return strings.Join(parts, " ")
}

// MatchPattern reports whether a text matches a pattern, in which * matches any text, including none.
func MatchPattern(text, pattern string) bool {
	prefix, rest, open := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, prefix)
	if !open || !ok {
		return ok && text == ""
	}
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
