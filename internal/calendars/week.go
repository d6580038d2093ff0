package calendars

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"deadman/internal/configfile"
)

// readWeek returns the spans that begin on each weekday, from the fields days and hours. Both are optional.
func readWeek(days, hours configfile.Value) [7][]span {
	if hours.IsMapping() {
		days.Problem("hours has the days already; remove days")
		return readHoursByDay(hours)
	}
	open := everyDay
	if days.Present() {
		open = readDays(days, [7]bool{})
	}
	spans := []span{{0, daySeconds}}
	if hours.Present() {
		spans = readSpans(hours)
	}
	var week [7][]span
	for d := range week {
		if open[d] {
			week[d] = spans
		}
	}
	return week
}

// readHoursByDay reads hours as a mapping from days to spans.
func readHoursByDay(hours configfile.Value) [7][]span {
	if hours.Empty() {
		hours.Problem(`the days are missing; write the hours of each, such as mon-fri: "09:00-17:30"`)
	}
	var week [7][]span
	var taken [7]bool
	for _, entry := range hours.Entries("days and their hours") {
		open := readDays(entry.Key(), taken)
		spans := readSpans(entry)
		for d := range week {
			if open[d] {
				week[d], taken[d] = spans, true
			}
		}
	}
	return week
}

var (
	dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // by time.Weekday
	everyDay = [7]bool{true, true, true, true, true, true, true}
	dayRange = regexp.MustCompile(`^([a-z]+)(?: *- *([a-z]+))?$`)
)

// readDays reads weekdays; days in taken may not be named again.
func readDays(v configfile.Value, taken [7]bool) [7]bool {
	var open [7]bool
	readWords(v, "mon-fri", func(word string) error {
		first, last, err := parseDays(word)
		if err != nil {
			return err
		}
		for d := first; ; d = (d + 1) % 7 {
			if taken[d] {
				return fmt.Errorf("%s is named twice; keep one", dayNames[d])
			}
			open[d], taken[d] = true, true
			if d == last {
				return nil
			}
		}
	})
	return open
}

// parseDays parses "mon" or "mon-fri", inclusive; "fri-mon" continues over the weekend.
func parseDays(word string) (first, last int, err error) {
	if m := dayRange.FindStringSubmatch(strings.ToLower(word)); m != nil {
		first = slices.Index(dayNames, m[1])
		last = first
		if m[2] != "" {
			last = slices.Index(dayNames, m[2])
		}
		if first >= 0 && last >= 0 {
			return first, last, nil
		}
	}
	return 0, 0, fmt.Errorf("%q is not a day; the days are mon, tue, wed, thu, fri, sat and sun, and several are mon-fri", clip(word))
}

// readSpans reads the hours of a day.
func readSpans(v configfile.Value) []span {
	var spans []span
	readWords(v, "09:00-17:30", func(word string) error {
		s, err := parseSpan(word)
		if err == nil {
			spans = append(spans, s)
		}
		return err
	})
	switch {
	case len(spans) > MaxSpans:
		v.Problem("there are %d spans, and a day may have %d; join some of them", len(spans), MaxSpans)
	case overlap(spans):
		v.Problem("two of the spans overlap; write them as one")
	}
	return spans
}
