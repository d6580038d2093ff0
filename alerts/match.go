package alerts

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"deadman/internal/configfile"
)

// MaxMatches is the largest number of fields in a match.
const MaxMatches = 20

// Fields lists the fields that a match can name beside the alert's labels.
var Fields = []string{"rule", "entity", "key", "severity", "status", "step"}

// SystemLabels lists the labels of system alerts.
var SystemLabels = []string{"channel", "line", "node", "prefix", "quota", StateLabel, "stream"}

// LabelPattern is the form of the name of a label.
var LabelPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)

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
		case !LabelPattern.MatchString(name):
			return errors.New(nameProblem(name))
		case m[name] == "" || len(m[name]) > 512:
			return fmt.Errorf("%s: a pattern has 1 to 512 bytes, and this one has %d; * is any text", name, len(m[name]))
		case name == "severity" && !MatchesAny(Severities, m[name]):
			return errors.New(name + ": " + configfile.NotOneOf("a severity", Severity(m[name]), Severities))
		case name == "status" && !MatchesAny(Statuses, m[name]):
			return errors.New(name + ": " + configfile.NotOneOf("a status", Status(m[name]), Statuses))
		}
	}
	return nil
}

// nameProblem returns the error for a name that no label can have.
func nameProblem(name string) string {
	problem := fmt.Sprintf("%q is neither a field of alerts nor the name of a label", configfile.Truncate(name, 80))
	switch {
	case name == "":
		return "a field has no name; write, for example, rule=order-*"
	case strings.HasSuffix(name, "!"), strings.HasSuffix(name, "~"):
		return problem + "; a match has = only, and * in a pattern is any text"
	}
	return problem + "; a name has up to 63 letters, digits, dots, _ and -, and begins with a letter or _"
}

// MatchesAny reports whether a pattern matches one of the values of a field.
func MatchesAny[T ~string](values []T, pattern string) bool {
	return slices.ContainsFunc(values, func(value T) bool { return MatchPattern(string(value), pattern) })
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
