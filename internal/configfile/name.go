package configfile

import (
	"fmt"
	"regexp"
	"strings"
)

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// WrongName says why a name is none, and what to write instead; empty: it is one.
func WrongName(name string) string {
	if namePattern.MatchString(name) {
		return ""
	}
	return fmt.Sprintf("%q is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit", Clip(name, quoted))
}

// Unknown says that a field, or another noun, is none of those that are known, and which was
// meant.
func Unknown(noun, name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("unknown %s %q; did you mean %q?", noun, Clip(name, quoted), near)
	}
	return fmt.Sprintf("unknown %s %q; the fields here are %s", noun, Clip(name, quoted), strings.Join(known, ", "))
}
