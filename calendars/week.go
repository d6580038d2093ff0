package calendars

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// week is the spans that begin on each weekday, as days and hours say. Either may be nil.
func (r *reader) week(days, hours ast.Node, field string) [7][]span {
	if named, ok := mapping(hours); ok {
		if days != nil {
			r.problem(days, field+".days", "hours names the days already; leave days out")
		}
		return r.hoursByDay(named, hours, field+".hours")
	}
	open := everyDay
	if days != nil {
		open = r.days(days, field+".days", [7]bool{})
	}
	spans := []span{{0, daySeconds}}
	if hours != nil {
		spans = r.spans(hours, field+".hours")
	}
	var week [7][]span
	for d := range week {
		if open[d] {
			week[d] = spans
		}
	}
	return week
}

// hoursByDay reads hours as a mapping of days to spans.
func (r *reader) hoursByDay(named []*ast.MappingValueNode, n ast.Node, field string) [7][]span {
	if len(named) == 0 {
		r.problem(n, field, `no day is named; write the hours of each, such as mon-fri: "09:00-17:30"`)
	}
	var week [7][]span
	var taken [7]bool
	r.mapping(n, field, "days and their hours", func(_ string, key, value ast.Node, below string) {
		open := r.days(key, below, taken)
		spans := r.spans(value, below)
		for d := range week {
			if open[d] {
				week[d], taken[d] = spans, true
			}
		}
	})
	return week
}

var (
	dayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} // by time.Weekday
	everyDay = [7]bool{true, true, true, true, true, true, true}
	dayRange = regexp.MustCompile(`^([a-z]+)(?: *- *([a-z]+))?$`)
)

// days reads weekdays; those that are taken may not be named again.
func (r *reader) days(n ast.Node, field string, taken [7]bool) [7]bool {
	var open [7]bool
	r.words(n, field, "mon-fri", func(word string) error {
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

// parseDays reads "mon" or "mon-fri", the first and the last; "fri-mon" goes over the weekend.
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

// spans reads the hours of a day.
func (r *reader) spans(n ast.Node, field string) []span {
	var spans []span
	r.words(n, field, "09:00-17:30", func(word string) error {
		s, err := parseSpan(word)
		if err == nil {
			spans = append(spans, s)
		}
		return err
	})
	switch {
	case len(spans) > MaxSpans:
		r.problem(n, field, "there are %d spans, and a day may have %d; join some of them", len(spans), MaxSpans)
	case overlap(spans):
		r.problem(n, field, "two of the spans overlap; write them as one")
	}
	return spans
}
