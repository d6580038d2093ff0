package ui

import (
	"fmt"
	"strconv"
	"time"
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
