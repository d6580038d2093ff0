package calendars

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// span is a part of a day in seconds from local midnight, excluding its end. A span over midnight ends after
// daySeconds.
type span struct{ from, to int64 }

var spanText = regexp.MustCompile(`^([0-9]{2}):([0-9]{2}) *- *([0-9]{2}):([0-9]{2})$`)

// parseSpan parses "09:00-17:30"; "22:00-06:00" ends on the next day.
func parseSpan(text string) (span, error) {
	m := spanText.FindStringSubmatch(text)
	if m == nil {
		return span{}, fmt.Errorf(`%q is not a span of hours; write it like "09:00-17:30"`, clip(text))
	}
	from, to := clock(m[1], m[2]), clock(m[3], m[4])
	switch {
	case from < 0 || from == daySeconds:
		return span{}, fmt.Errorf(`%q does not begin at a time of day; use 00:00 to 23:59`, text)
	case to < 0:
		return span{}, fmt.Errorf(`%q does not end at a time of day; use 00:00 to 24:00`, text)
	case from == to:
		return span{}, errors.New(`the span ends where it begins; the whole day is "00:00-24:00"`)
	case to < from:
		to += daySeconds
	}
	return span{from, to}, nil
}

// clock returns a time of day in seconds, up to 24:00; -1: invalid.
func clock(hour, minute string) int64 {
	h, m := digits(hour), digits(minute)
	if t := h*3600 + m*60; m < 60 && t <= daySeconds {
		return t
	}
	return -1
}

func digits(two string) int64 { return int64(two[0]-'0')*10 + int64(two[1]-'0') }

// day is the open time of a weekday: ordered, disjoint spans, none beyond midnight.
type day struct {
	whole []span // including spans from the day before that end after midnight
	fresh []span // excluding them
}

// weekOf cuts the spans of each weekday at midnight.
func weekOf(begin [7][]span) [7]day {
	var week [7]day
	for today, spans := range begin {
		var late []span
		for _, s := range begin[(today+6)%7] {
			if s.to > daySeconds {
				late = append(late, span{0, s.to - daySeconds})
			}
		}
		var fresh []span
		for _, s := range spans {
			fresh = append(fresh, span{s.from, min(s.to, daySeconds)})
		}
		week[today] = day{whole: joined(slices.Concat(late, fresh)), fresh: joined(fresh)}
	}
	return week
}

// joined sorts spans and merges those that overlap or touch.
func joined(spans []span) []span {
	var apart []span
	for _, s := range sorted(spans) {
		if last := len(apart) - 1; last >= 0 && s.from <= apart[last].to {
			apart[last].to = max(apart[last].to, s.to)
			continue
		}
		apart = append(apart, s)
	}
	return apart
}

func sorted(spans []span) []span {
	return slices.SortedFunc(slices.Values(spans), func(a, b span) int { return int(a.from - b.from) })
}

// overlap reports whether two spans of one day overlap.
func overlap(spans []span) bool {
	ordered := sorted(spans)
	for i := range ordered[min(1, len(ordered)):] {
		if ordered[i+1].from < ordered[i].to {
			return true
		}
	}
	return false
}
