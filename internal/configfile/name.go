package configfile

import (
	"fmt"
	"regexp"
	"strings"
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckName says why a name is none, and what to write instead; empty: it is one.
func CheckName(name string) string {
	if namePattern.MatchString(name) {
		return ""
	}
	return fmt.Sprintf("%q is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit", Truncate(name, quoted))
}

// UnknownName says that a field, or another noun, is none of those that are known, and which was
// meant.
func UnknownName(noun, name string, known []string) string {
	if near := Suggest(name, known); near != "" {
		return fmt.Sprintf("unknown %s %q; did you mean %q?", noun, Truncate(name, quoted), near)
	}
	return fmt.Sprintf("unknown %s %q; the fields here are %s", noun, Truncate(name, quoted), strings.Join(known, ", "))
}
