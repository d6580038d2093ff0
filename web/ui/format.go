package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// number formats an integer with separators, such as "100,000".
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

// roughly formats a duration in one or two units, such as "4 h 12 m".
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

// precisely formats a duration of a check in one unit, such as "3 µs", "12.5 ms" or "1.2 s".
func precisely(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Round(time.Microsecond)/time.Microsecond)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// seconds converts the API's seconds to a duration.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// escapeControls writes invisible, cursor and direction characters as code points. It keeps line breaks and tabs.
func escapeControls(text string) string {
	if !strings.ContainsFunc(text, isControl) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if isControl(r) {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// isControl reports whether a character is a Unicode control or format character. U+202E, for instance, reverses the
// direction of the text after it. Line breaks and tabs are not.
func isControl(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}
