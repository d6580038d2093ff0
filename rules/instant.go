package rules

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// layouts are the instants that date reads; without a zone they are UTC.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"}

// maxInstant is the longest text of an instant or a span that is read, in bytes.
const maxInstant = 256

func parseDate(s string) (time.Time, error) {
	for _, layout := range layouts {
		if len(s) > maxInstant {
			break
		}
		if t, err := time.Parse(layout, s); err == nil {
			return bounded(t)
		}
	}
	return time.Time{}, fmt.Errorf(`%q is not an instant; write it like "2026-11-20T15:04:05Z"`, clip(s, 40))
}

// toDate reads an instant of text, or of seconds since 1970.
func toDate(v any) (time.Time, error) {
	switch v := v.(type) {
	case time.Time:
		return v, nil
	case string:
		return parseDate(v)
	case int:
		if v < 0 || v > maxYear*366*86400 {
			return bounded(time.Time{})
		}
		return bounded(time.Unix(int64(v), 0))
	case float64:
		if !(v >= 0 && v < maxYear*366*86400) {
			return bounded(time.Time{})
		}
		whole, part := math.Modf(v)
		return bounded(time.Unix(int64(whole), int64(part*1e9)))
	}
	return time.Time{}, fmt.Errorf("%s is not an instant; an instant is text, or seconds since 1970", naming(v))
}

const maxYear = 9999

func bounded(t time.Time) (time.Time, error) {
	if t.Year() < 1970 || t.Year() > maxYear {
		return time.Time{}, errors.New("the instant is not between 1970 and 9999; are these milliseconds? divide them by 1000")
	}
	return t.UTC().Round(time.Microsecond), nil
}

func toDuration(v any) (time.Duration, error) {
	s, ok := v.(string)
	if !ok {
		return 0, fmt.Errorf(`duration takes text such as "3d", not %s; or use hours(…)`, naming(v))
	}
	if len(s) > maxInstant {
		return 0, fmt.Errorf(`duration takes text such as "3d", not %d bytes of it`, len(s))
	}
	d, err := ParseDuration(s)
	return time.Duration(d), err
}

func times(v any, span time.Duration) (time.Duration, error) {
	var n float64
	switch v := v.(type) {
	case int:
		n = float64(v)
	case float64:
		n = v
	default:
		return 0, fmt.Errorf("a number is wanted, not %s", naming(v))
	}
	if d := n * float64(span); math.Abs(d) < math.MaxInt64/2 {
		return time.Duration(math.Round(d)), nil
	}
	return 0, errors.New("the span is longer than a hundred years")
}
