package configfile

import (
	"fmt"
	"regexp"
	"strings"
)

// Suggest returns the known name nearest to the given one, or "" if none is near.
func Suggest(name string, known []string) string {
	best, at := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(name, k, at); d < at {
			best, at = k, d
		}
	}
	return best
}

// distance returns the number of letters to add, drop, change or swap with a neighbour to get from a to b (optimal
// string alignment). Values from limit on are not exact.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckName returns the problem of a name with its remedy; empty: the name is valid.
func CheckName(name string) string {
	if namePattern.MatchString(name) {
		return ""
	}
	return fmt.Sprintf("%q is not a name; write 1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit", Truncate(name, quoted))
}

// UnknownName returns the message for a field, or another noun, that is not among the known names, with the nearest
// known name.
func UnknownName(noun, name string, known []string) string {
	if near := Suggest(name, known); near != "" {
		return fmt.Sprintf("unknown %s %q; did you mean %q?", noun, Truncate(name, quoted), near)
	}
	return fmt.Sprintf("unknown %s %q; the fields here are %s", noun, Truncate(name, quoted), strings.Join(known, ", "))
}

// NotOneOf returns the message for a word that is none of the words, with the nearest of them. The noun names the word:
// "a severity".
func NotOneOf[T ~string](noun string, word T, words []T) string {
	known := make([]string, len(words))
	for i, w := range words {
		known[i] = string(w)
	}
	given := Truncate(string(word), quoted)
	if near := Suggest(string(word), known); near != "" {
		return fmt.Sprintf("%q is not %s; did you mean %q?", given, noun, near)
	}
	return fmt.Sprintf("%q is not %s; write one of %s", given, noun, strings.Join(known, ", "))
}
