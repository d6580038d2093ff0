package calendars

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// span is a part of a day in seconds from midnight as clocks on the wall show it, without its
// end. One that goes over midnight ends after daySeconds.
type span struct{ from, to int64 }

var spanText = regexp.MustCompile(`^([0-9]{2}):([0-9]{2}) *- *([0-9]{2}):([0-9]{2})$`)

// parseSpan reads "09:00-17:30"; "22:00-06:00" goes over midnight.
func parseSpan(text string) (span, error) {
	m := spanText.FindStringSubmatch(text)
	if m == nil {
		return span{}, fmt.Errorf(`%q is not a span of hours; write it like "09:00-17:30"`, clip(text))
	}
	from, to := clock(m[1], m[2]), clock(m[3], m[4])
	switch {
	case from < 0 || from == daySeconds:
		return span{}, fmt.Errorf(`%q begins at no time of a day; a day's times are 00:00 to 23:59`, text)
	case to < 0:
		return span{}, fmt.Errorf(`%q ends at no time of a day; a day's times are 00:00 to 24:00`, text)
	case from == to:
		return span{}, errors.New(`the span ends where it begins; the whole day is "00:00-24:00"`)
	case to < from:
		to += daySeconds
	}
	return span{from, to}, nil
}

// clock is a time of day in seconds, up to 24:00; -1: there is none such.
func clock(hour, minute string) int64 {
	h, m := digits(hour), digits(minute)
	if t := h*3600 + m*60; m < 60 && t <= daySeconds {
		return t
	}
	return -1
}

func digits(two string) int64 { return int64(two[0]-'0')*10 + int64(two[1]-'0') }

// day is what is open on one weekday: in order, apart from each other, and none beyond midnight.
type day struct {
	whole []span // with what began the day before and goes over midnight
	fresh []span // without
}

// weekOf cuts the spans of each weekday's beginning at midnight.
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

// joined puts spans in order and makes one of those that overlap or touch.
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

// overlap reports whether two spans of one day share a time.
func overlap(spans []span) bool {
	ordered := sorted(spans)
	for i := range ordered[min(1, len(ordered)):] {
		if ordered[i+1].from < ordered[i].to {
			return true
		}
	}
	return false
}
