package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// number is a number as people read it, such as "100,000".
func number[N ~int | ~int64 | ~uint64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	if n < 0 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// roughly is a length of time in one or two units, such as "4 h 12 m".
func roughly(d time.Duration) string {
	for _, unit := range []struct {
		size, less time.Duration
		name, then string
	}{{24 * time.Hour, time.Hour, "d", "h"}, {time.Hour, time.Minute, "h", "m"}, {time.Minute, time.Second, "m", "s"}} {
		if d < unit.size {
			continue
		}
		whole, rest := d/unit.size, d%unit.size/unit.less
		if rest == 0 || whole >= 10 {
			return fmt.Sprintf("%d %s", whole, unit.name)
		}
		return fmt.Sprintf("%d %s %d %s", whole, unit.name, rest, unit.then)
	}
	return fmt.Sprintf("%d s", d.Round(time.Second)/time.Second)
}

// seconds is the length of time that the API gives in seconds.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

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
